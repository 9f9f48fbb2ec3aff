//! Two texts as a unified diff, which `git apply` and `patch` take.

use std::fmt::Write;

use super::align::align;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// The change from one text to another, as a patch of a file of that name; empty when there is none. Both texts end in a line
/// feed or are empty.
pub fn unified(name: &str, before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut steps: Vec<(char, &str)> = Vec::with_capacity(old.len().max(new.len()));
    let (mut b, mut a) = (0, 0);
    for (next_b, next_a) in align(&old, &new).into_iter().chain([(old.len(), new.len())]) {
        steps.extend(old[b..next_b].iter().map(|line| ('-', *line)));
        steps.extend(new[a..next_a].iter().map(|line| ('+', *line)));
        if let Some(line) = new.get(next_a) {
            steps.push((' ', line));
        }
        (b, a) = (next_b + 1, next_a + 1);
    }
    let changed: Vec<usize> = (0..steps.len()).filter(|at| steps[*at].0 != ' ').collect();
    if changed.is_empty() {
        return String::new();
    }
    let from = if old.is_empty() { "/dev/null".to_owned() } else { format!("a/{name}") };
    let mut text = format!("--- {from}\n+++ b/{name}\n");
    let (mut at, mut old_line, mut new_line) = (0, 1, 1);
    for group in changed.chunk_by(|a, b| b - a <= 2 * CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (start, end) = (first.saturating_sub(CONTEXT).max(at), (last + CONTEXT + 1).min(steps.len()));
        // Between two groups there are only unchanged lines.
        (old_line, new_line) = (old_line + start - at, new_line + start - at);
        let count = |sign: char| steps[start..end].iter().filter(|(step, _)| *step == ' ' || *step == sign).count();
        let (removed, added) = (count('-'), count('+'));
        let place = |line: usize, count: usize| if count == 0 { line - 1 } else { line };
        let (from, to) = (place(old_line, removed), place(new_line, added));
        let _ = writeln!(text, "@@ -{from},{removed} +{to},{added} @@");
        for (sign, line) in &steps[start..end] {
            let _ = writeln!(text, "{sign}{line}");
        }
        (old_line, new_line, at) = (old_line + removed, new_line + added, end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn hunks_are_where_they_say() {
        let before: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let after = before.replace("\n5\n", "\nfive\n").replace("\n18\n", "\n").replace("19\n", "19\nmore\n");
        assert_eq!(
            unified("f", &before, &after),
            "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
             @@ -15,6 +15,6 @@\n 15\n 16\n 17\n-18\n 19\n+more\n 20\n"
        );
        assert_eq!(unified("f", "", "a\nb\n"), "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(unified("f", "a\n", ""), "--- a/f\n+++ b/f\n@@ -1,1 +0,0 @@\n-a\n");
        assert_eq!(unified("f", "a\n", "a\n"), "");
    }
}
