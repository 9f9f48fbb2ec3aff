//! Numbers as people read them, in sentences of every layer.

/// 12345 as `12,345`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Neighbours among ascending numbers together: first and last of each run.
fn runs(numbers: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
    numbers.chunk_by(|a, b| a + 1 == *b).filter_map(|run| Some((*run.first()?, *run.last()?)))
}

/// Ascending numbers as `0-3, 8`.
pub fn ranges(numbers: &[u32]) -> String {
    let text = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    runs(numbers).map(text).collect::<Vec<String>>().join(", ")
}

/// Ascending numbers of warps as `warp 3`, `warps 4 to 11`, `warps 0, 2 and 5`.
pub fn warps(numbers: &[u32]) -> String {
    let text = |(first, last)| if first == last { format!("{first}") } else { format!("{first} to {last}") };
    let runs: Vec<String> = runs(numbers).map(text).collect();
    match (numbers, runs.as_slice()) {
        ([only], _) => format!("warp {only}"),
        (_, [run]) => format!("warps {run}"),
        (_, [head @ .., last]) => format!("warps {} and {last}", head.join(", ")),
        (_, []) => "nobody".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_groups_of_three() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }

    #[test]
    fn neighbours_are_one_run() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8]), "0-3, 8");
        assert_eq!(ranges(&[]), "");
        assert_eq!(warps(&[3]), "warp 3");
        assert_eq!(warps(&[4, 5, 6, 7]), "warps 4 to 7");
        assert_eq!(warps(&[0, 2, 5]), "warps 0, 2 and 5");
        assert_eq!(warps(&[]), "nobody");
    }
}
