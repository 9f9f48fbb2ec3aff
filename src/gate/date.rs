//! Days, so that an allowance can expire.

use std::fmt;
use std::str::FromStr;

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// The day, in UTC, that lies so many seconds after 1970 began.
    pub fn from_unix_seconds(seconds: u64) -> Date {
        let mut days = seconds / 86_400;
        let mut year: u16 = 1970;
        loop {
            let length = if is_leap(year) { 366 } else { 365 };
            if days < length || year == u16::MAX {
                break;
            }
            days -= length;
            year += 1;
        }
        let mut month = 1;
        while month < 12 && days >= u64::from(days_of(year, month)) {
            days -= u64::from(days_of(year, month));
            month += 1;
        }
        Date { year, month, day: u8::try_from(days + 1).unwrap_or(31) }
    }
}

fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u16, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Date, String> {
        let wrong = || format!("'{text}' is not a date: expected year-month-day such as 2027-03-31");
        let digit = |(at, b): (usize, u8)| if at == 4 || at == 7 { b == b'-' } else { b.is_ascii_digit() };
        let shape = text.len() == 10 && text.bytes().enumerate().all(digit);
        let number = |from: usize, to: usize| text.get(from..to).and_then(|digits| digits.parse::<u16>().ok());
        let (true, Some(year), Some(month), Some(day)) = (shape, number(0, 4), number(5, 7), number(8, 10)) else {
            return Err(wrong());
        };
        let (month, day) = (month as u8, day as u8);
        if !(1..=12).contains(&month) || day == 0 || day > days_of(year, month) {
            return Err(wrong());
        }
        Ok(Date { year, month, day })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_795_132_799, "2026-11-19"),
            (1_798_761_599, "2026-12-31"),
            (1_798_761_600, "2027-01-01"),
        ] {
            assert_eq!(Date::from_unix_seconds(seconds).to_string(), day);
            assert_eq!(day.parse::<Date>().unwrap(), Date::from_unix_seconds(seconds));
        }
        assert!("2026-12-31".parse::<Date>().unwrap() < "2027-01-01".parse().unwrap());
        for wrong in ["2026-02-29", "2026-13-01", "2026-1-1", "20260101", "", "2026-00-10", "+026-01-01", "2026-01-0x"]
        {
            assert!(wrong.parse::<Date>().is_err(), "{wrong}");
        }
    }
}
