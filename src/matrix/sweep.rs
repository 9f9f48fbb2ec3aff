//! `--sweep maxrregcount=64..255:8`: a flag of ptxas and the values to try.

use std::str::FromStr;

/// How many values a sweep may have.
const MOST: u64 = 4096;

/// A flag and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The long name, without its dashes.
    pub name: String,
    /// In the order they were given.
    pub values: Vec<String>,
}

/// One value of each sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Names and values.
    pub values: Vec<(String, String)>,
}

impl Setting {
    /// As ptxas takes it.
    pub fn flags(&self) -> Vec<String> {
        self.values.iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }

    /// Whether it sets something that a directive of the PTX may have set already, and which then rules.
    pub fn yields_to_directives(&self) -> bool {
        self.values.iter().any(|(name, _)| ["maxrregcount", "maxntid", "minnctapersm"].contains(&name.as_str()))
    }

    /// As people read it.
    pub fn label(&self) -> String {
        self.values.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// Every combination, the last sweep fastest.
    pub fn all(sweeps: &[Sweep]) -> Vec<Setting> {
        let mut all = vec![Setting::default()];
        for sweep in sweeps {
            let with = |setting: &Setting, value: &String| {
                let mut values = setting.values.clone();
                values.push((sweep.name.clone(), value.clone()));
                Setting { values }
            };
            all = all.iter().flat_map(|setting| sweep.values.iter().map(move |value| with(setting, value))).collect();
        }
        all
    }
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Sweep, String> {
        let wrong = || {
            format!(
                "'{text}' is not a sweep: expected a flag and its values, such as maxrregcount=64..255:8 or opt-level=1,2,3"
            )
        };
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let name = name.trim_start_matches('-');
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(plain) || values.is_empty() {
            return Err(wrong());
        }
        let values = match values.split_once("..") {
            None => values.split(',').map(|value| value.trim().to_owned()).collect(),
            Some((from, rest)) => {
                let (to, step) = rest.split_once(':').unwrap_or((rest, "1"));
                let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
                let (from, to, step) = (number(from)?, number(to.trim_start_matches('='))?, number(step)?);
                if step == 0 || to < from || (to - from) / step >= MOST {
                    return Err(wrong());
                }
                (0..=(to - from) / step).map(|at| (from + at * step).to_string()).collect::<Vec<_>>()
            }
        };
        if values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Sweep { name: name.to_owned(), values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_lists() {
        let values = |text: &str| text.parse::<Sweep>().unwrap().values.join(" ");
        assert_eq!(values("maxrregcount=64..96:8"), "64 72 80 88 96");
        assert_eq!(values("--maxrregcount=64..99:16"), "64 80 96");
        assert_eq!(values("register-usage-level=0..3"), "0 1 2 3");
        assert_eq!(values("opt-level=1,2,3"), "1 2 3");
        for wrong in ["", "x", "x=", "=1", "x=5..1", "x=1..9:0", "x=1,,2", "x=0..99999999", "x y=1", "x=a..b"] {
            assert!(wrong.parse::<Sweep>().is_err(), "{wrong}");
        }
        let sweeps = ["a=1,2".parse().unwrap(), "b=3,4".parse().unwrap()];
        let labels: Vec<String> = Setting::all(&sweeps).iter().map(Setting::label).collect();
        assert_eq!(labels, ["a=1 b=3", "a=1 b=4", "a=2 b=3", "a=2 b=4"]);
        assert_eq!(Setting::all(&[]).len(), 1);
    }
}
