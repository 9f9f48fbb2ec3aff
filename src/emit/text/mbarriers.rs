//! mbarriers by array: neighbours that are initialised alike are the stages of one pipeline.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::Options;
use super::figures::{count, thousands};
use super::kernel::row;
use crate::base::Line;
use crate::emit::escape::terminal;
use crate::report::MbarrierSite;

/// Bytes of an mbarrier.
const BYTES: i64 = 8;

/// `full+64[?]`, `full+0…24` in its parts; of `full+0,64` the first.
struct Place<'a> {
    variable: &'a str,
    offset: Option<i64>,
    /// Of several that it may be, where they are known.
    last: Option<i64>,
    element: bool,
    /// Whether it may be others that do not lie beside it: no array starts there.
    apart: bool,
}

impl<'a> Place<'a> {
    fn of(object: &'a str) -> Place<'a> {
        let (object, element) = match object.strip_suffix("[?]") {
            Some(object) => (object, true),
            None => (object, false),
        };
        let Some((variable, offset)) = object.rsplit_once('+') else {
            return Place { variable: object, offset: Some(0), last: None, element, apart: false };
        };
        let (offset, apart) = offset.split_once(',').map_or((offset, false), |(first, _)| (first, true));
        match offset.split_once('…') {
            Some((first, last)) => {
                Place { variable, offset: first.parse().ok(), last: last.parse().ok(), element: true, apart }
            }
            None => Place { variable, offset: offset.parse().ok(), last: None, element: element || apart, apart },
        }
    }
}

/// Objects side by side with what is done to them.
struct Array<'a> {
    variable: &'a str,
    /// First and last; none for what cannot be told.
    range: Option<(i64, i64)>,
    /// Actions in the order of the text, with their lines.
    acts: Vec<(String, Vec<Line>)>,
}

impl Array<'_> {
    fn holds(&self, place: &Place<'_>) -> bool {
        let within = |(first, last): (i64, i64)| place.offset.is_some_and(|at| (first..=last).contains(&at));
        self.variable == place.variable && self.range.is_some_and(within)
    }

    fn add(&mut self, site: &MbarrierSite) {
        let what = match (site.action.as_str(), site.argument) {
            ("init", Some(argument)) => format!("init for {}", count(argument, "arrival")),
            ("arrive.expect_tx" | "expect_tx", Some(argument)) => {
                format!("{} of {} bytes", site.action, thousands(argument))
            }
            (action, _) => action.to_owned(),
        };
        match self.acts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, lines)) => lines.push(site.ptx_line),
            None => self.acts.push((what, vec![site.ptx_line])),
        }
    }

    fn name(&self, alone: bool) -> String {
        let variable = if alone { terminal(self.variable) } else { "".into() };
        match self.range {
            Some((first, last)) if first == last => format!("{variable}+{first}"),
            Some((first, last)) => format!("{variable}+{first}…{last}"),
            None => format!("{variable}+?"),
        }
    }
}

/// The arrays of all variables, in the order of their first initialisation, and what belongs to none of them.
fn arrays(sites: &[MbarrierSite]) -> Vec<Array<'_>> {
    let mut variables: Vec<&str> = Vec::new();
    for site in sites {
        let variable = site.object.as_deref().map_or("?", |object| Place::of(object).variable);
        if !variables.contains(&variable) {
            variables.push(variable);
        }
    }
    let mut found: Vec<Array<'_>> = Vec::new();
    for variable in variables {
        let places = || {
            let known = sites.iter().filter_map(|site| Some((site, Place::of(site.object.as_deref()?))));
            known.filter(|(_, place)| place.variable == variable)
        };
        let bounds = |place: &Place<'_>| [place.offset, place.last.map(|last| last.saturating_add(BYTES))];
        let starts: BTreeSet<i64> = places()
            .filter(|(_, place)| place.element && !place.apart)
            .flat_map(|(_, place)| bounds(&place))
            .flatten()
            .collect();
        let mut inits: Vec<(i64, Option<u64>)> = places()
            .filter(|(site, place)| site.action == "init" && !place.element)
            .filter_map(|(site, place)| Some((place.offset?, site.argument)))
            .collect();
        inits.sort_unstable();
        inits.dedup();
        let mut last: Option<(i64, Option<u64>)> = None;
        for (offset, count) in inits {
            let goes_on = last == Some((offset - BYTES, count)) && !starts.contains(&offset);
            match found.last_mut().filter(|_| goes_on) {
                Some(Array { range: Some((_, end)), .. }) => *end = offset,
                _ => found.push(Array { variable, range: Some((offset, offset)), acts: Vec::new() }),
            }
            last = Some((offset, count));
        }
    }
    for site in sites {
        let place = Place::of(site.object.as_deref().unwrap_or("?+?"));
        match found.iter_mut().find(|array| array.holds(&place)) {
            Some(array) => array.add(site),
            None => {
                let mut rest = Array { variable: place.variable, range: None, acts: Vec::new() };
                let known = found.iter_mut().find(|array| array.range.is_none() && array.variable == rest.variable);
                match known {
                    Some(array) => array.add(site),
                    None => {
                        rest.add(site);
                        found.push(rest);
                    }
                }
            }
        }
    }
    found
}

/// `wait at line 12`, `wait at 4 lines from 12 on`
fn act((what, lines): &(String, Vec<Line>)) -> String {
    match lines.as_slice() {
        [only] => format!("{what} at line {only}"),
        [first, last] => format!("{what} at lines {first} and {last}"),
        [first, ..] => format!("{what} at {} lines from {first} on", lines.len()),
        [] => what.clone(),
    }
}

/// A row for each array.
pub(super) fn write(sites: &[MbarrierSite], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut before = None;
    for (index, array) in arrays(sites).iter().enumerate() {
        let label = if index == 0 { "mbarriers" } else { "" };
        let several = array.range.map_or(String::new(), |(first, last)| match (last - first) / BYTES + 1 {
            1 => String::new(),
            several => format!(" ({several} mbarriers)"),
        });
        let acts: Vec<String> = array.acts.iter().map(act).collect();
        let name = array.name(before != Some(array.variable));
        before = Some(array.variable);
        row(label, &format!("{name}{several}: {}", acts.join(", ")), options, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_one_row() {
        let site = |ptx_line: u32, action: &str, object: Option<&str>, argument| MbarrierSite {
            ptx_line: Line(ptx_line),
            action: action.to_owned(),
            object: object.map(str::to_owned),
            argument,
            reached_by: None,
            pcs: Vec::new(),
        };
        let sites = [
            site(1, "init", Some("bars"), Some(1)),
            site(2, "init", Some("bars+8"), Some(1)),
            // The same count, but an array of its own: an index is added to where it starts.
            site(3, "init", Some("bars+16"), Some(1)),
            site(4, "init", Some("bars+24"), Some(1)),
            site(5, "init", Some("bars+32"), Some(4)),
            site(6, "wait", Some("bars[?]"), None),
            site(7, "wait", Some("bars[?]"), None),
            site(8, "arrive", Some("bars+16[?]"), None),
            site(9, "wait", Some("bars+32"), None),
            site(9, "arrive", Some("bars+8,32"), None),
            site(10, "wait", Some("bars+?"), None),
            site(11, "arrive", None, None),
        ];
        let options = Options { verbose: false, top: 5, width: 120, pictures: true, links: None };
        let mut out = Vec::new();
        write(&sites, &options, &mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        let rows: Vec<&str> = text.lines().map(|line| line[14..].trim()).collect();
        assert_eq!(
            rows,
            [
                "bars+0…8 (2 mbarriers): init for 1 arrival at lines 1 and 2, wait at lines 6 and 7, arrive at line 9",
                "+16…24 (2 mbarriers): init for 1 arrival at lines 3 and 4, arrive at line 8",
                "+32: init for 4 arrivals at line 5, wait at line 9",
                "+?: wait at line 10",
                "?+?: arrive at line 11",
            ]
        );
    }
}
