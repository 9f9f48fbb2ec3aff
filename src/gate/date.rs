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

/// A second, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    date: Date,
    /// Of the day.
    seconds: u32,
}

impl Moment {
    /// So many seconds after 1970 began.
    pub fn from_unix_seconds(seconds: u64) -> Moment {
        let of_day = u32::try_from(seconds % 86_400).unwrap_or(0);
        Moment { date: Date::from_unix_seconds(seconds), seconds: of_day }
    }

    /// Its day.
    pub fn date(self) -> Date {
        self.date
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moment { date, seconds } = self;
        write!(f, "{date}T{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

impl FromStr for Moment {
    type Err = String;

    /// A day, which is its first second, or a second of it.
    fn from_str(text: &str) -> Result<Moment, String> {
        let wrong = || format!("'{text}' is not a time: expected 2027-03-31 or 2027-03-31T18:05:00Z, in UTC");
        let (day, time) = match text.split_once('T') {
            None => (text, None),
            Some((day, time)) => (day, Some(time)),
        };
        let date: Date = day.parse().map_err(|_| wrong())?;
        let Some(time) = time else { return Ok(Moment { date, seconds: 0 }) };
        let digit = |(at, b): (usize, u8)| match at {
            2 | 5 => b == b':',
            8 => b == b'Z',
            _ => b.is_ascii_digit(),
        };
        if time.len() != 9 || !time.bytes().enumerate().all(digit) {
            return Err(wrong());
        }
        let number = |from: usize| time.get(from..from + 2).and_then(|digits| digits.parse::<u32>().ok());
        match (number(0), number(3), number(6)) {
            (Some(hours @ 0..24), Some(minutes @ 0..60), Some(seconds @ 0..60)) => {
                Ok(Moment { date, seconds: hours * 3600 + minutes * 60 + seconds })
            }
            _ => Err(wrong()),
        }
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
    fn moments() {
        for text in ["1970-01-01T00:00:00Z", "2026-11-19T23:59:59Z", "2000-02-29T12:34:56Z"] {
            assert_eq!(text.parse::<Moment>().unwrap().to_string(), text);
        }
        assert_eq!("2026-11-19".parse::<Moment>().unwrap().to_string(), "2026-11-19T00:00:00Z");
        assert_eq!(Moment::from_unix_seconds(1_795_132_799).to_string(), "2026-11-19T23:59:59Z");
        for wrong in ["2026-11-19T24:00:00Z", "2026-11-19T1:00:00Z", "2026-11-19T10:00:00", "x", "2026-11-19T+1:00:00Z"]
        {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
    }

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
