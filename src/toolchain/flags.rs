//! Flags of ptxas that a checkout may choose: those that read and write no file.
//!
//! A list of what is known to be harmless, not of what is known to harm: ptxas has options that its help does not show, and gets
//! new ones with every release.

use super::RunError;
use crate::base::spelling;

/// Whether a word follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
}
use Takes::{Nothing, Value};

/// The long and the short name, from `ptxas --help` of 11.7 to 13.4, without the options that name files or inputs, or that this
/// program gives itself.
const HARMLESS: [(&str, &str, Takes); 49] = [
    ("--Ofast-compile", "-Ofc", Value),
    ("--allow-expensive-optimizations", "-allow-expensive-optimizations", Value),
    ("--compile-as-tools-patch", "-astoolspatch", Nothing),
    ("--compile-only", "-c", Nothing),
    ("--compiler-annotations", "-annotate", Nothing),
    ("--def-load-cache", "-dlcm", Value),
    ("--def-store-cache", "-dscm", Value),
    ("--device-debug", "-g", Nothing),
    ("--device-function-maxrregcount", "-func-maxrregcount", Value),
    ("--device-stack-protector", "-device-stack-protector", Value),
    ("--disable-optimizer-constants", "-disable-optimizer-consts", Nothing),
    ("--disable-warnings", "-w", Nothing),
    ("--dont-merge-basicblocks", "-no-bb-merge", Nothing),
    ("--enable-func-clone-sc", "-enable-func-clone-sc", Value),
    ("--entry", "-e", Value),
    ("--extensible-whole-program", "-ewp", Nothing),
    ("--fmad", "-fmad", Value),
    ("--force-load-cache", "-flcm", Value),
    ("--force-store-cache", "-fscm", Value),
    ("--g-tensor-memory-access-check", "-g-tmem-access-check", Nothing),
    ("--generate-line-info", "-lineinfo", Nothing),
    ("--gno-tensor-memory-access-check", "-gno-tmem-access-check", Nothing),
    ("--jobserver", "-jobserver", Nothing),
    ("--legacy-bar-warp-wide-behavior", "-legacy-bar-warp-wide-behavior", Nothing),
    ("--machine", "-m", Value),
    ("--make-errors-visible-at-exit", "-make-errors-visible-at-exit", Nothing),
    ("--maxntid", "-maxntid", Value),
    ("--maxrregcount", "-maxrregcount", Value),
    ("--minnctapersm", "-minnctapersm", Value),
    ("--opt-level", "-O", Value),
    ("--optimize-float-atomics", "-opt-fp-atomics", Nothing),
    ("--override-directive-values", "-override-directive-values", Nothing),
    ("--position-independent-code", "-pic", Value),
    ("--preserve-relocs", "-preserve-relocs", Nothing),
    ("--register-usage-level", "-regUsageLevel", Value),
    ("--return-at-end", "-ret-end", Nothing),
    ("--sanitize", "-sanitize", Value),
    ("--sp-bounds-check", "-sp-bounds-check", Nothing),
    ("--split-compile", "-split-compile", Value),
    ("--suppress-async-bulk-multicast-advisory-warning", "-suppress-async-bulk-multicast-advisory-warning", Nothing),
    ("--suppress-debug-info", "-suppress-debug-info", Nothing),
    ("--suppress-double-demote-warning", "-suppress-double-demote-warning", Nothing),
    ("--suppress-sparse-mma-advisory-info", "-suppress-sparse-mma-advisory-info", Nothing),
    ("--suppress-stack-size-warning", "-suppress-stack-size-warning", Nothing),
    ("--verbose", "-v", Nothing),
    ("--warn-on-double-precision-use", "-warn-double-usage", Nothing),
    ("--warn-on-local-memory-usage", "-warn-lmem-usage", Nothing),
    ("--warn-on-spills", "-warn-spills", Nothing),
    ("--warning-as-error", "-Werror", Nothing),
];

/// Checks flags that a checkout chose, and says which of them somebody has to give on the command line instead.
pub fn check_project_flags(flags: &[String]) -> Result<(), RunError> {
    check_flags(
        flags,
        "a project's configuration gives flags that are known to name no file; give it after -- on the command line",
    )
}

/// Checks that flags are known to name no file, and gives this advice where one is not.
pub fn check_flags(flags: &[String], advice: &'static str) -> Result<(), RunError> {
    let mut words = flags.iter();
    while let Some(word) = words.next() {
        let refused = || RunError::Flag { flag: word.clone(), advice };
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        // `-O3`
        let level =
            word.strip_prefix("-O").is_some_and(|level| level.len() == 1 && level.as_bytes()[0].is_ascii_digit());
        if level {
            continue;
        }
        let known = HARMLESS.iter().find(|(long, short, _)| [long, short].contains(&&name));
        let (_, _, takes) = known.ok_or_else(refused)?;
        if *takes == Value && value.is_none() {
            words.next();
        }
    }
    Ok(())
}

/// The flag of ptxas that is spelt most like one that it does not know, if one is.
pub fn nearest(asked: &str) -> Option<&'static str> {
    let bare = |name: &str| name.trim_start_matches('-').to_lowercase();
    let asked = bare(asked.split('=').next().unwrap_or(asked));
    let names = HARMLESS.iter().flat_map(|(long, short, _)| [*long, *short]);
    let near = names.min_by_key(|name| spelling::distance(&asked, &bare(name)))?;
    (spelling::distance(&asked, &bare(near)) <= (asked.chars().count() / 3).max(1)).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flags: &[&str]) -> Result<(), String> {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        check_project_flags(&flags).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_that_name_no_file_are_taken() {
        check(&[]).unwrap();
        check(&["-O1", "--maxrregcount", "64", "-dlcm=ca", "--fmad=false", "-c", "-e", "gemm", "-Werror"]).unwrap();
    }

    #[test]
    fn a_misspelt_flag_has_a_neighbour() {
        assert_eq!(nearest("-maxregcount"), Some("--maxrregcount"));
        assert_eq!(nearest("-optlevel=3"), Some("--opt-level"));
        assert_eq!(nearest("-frobnicate"), None);
    }

    #[test]
    fn anything_else_is_refused() {
        for flags in [
            &["--options-file", "flags.txt"][..],
            &["-optf=flags.txt"],
            &["--apply-controls=controls"],
            &["-o", "../../.bashrc"],
            &["-c", "another.ptx"],
            &["another"],
            &["@flags"],
            &["--some-option-of-tomorrow"],
            &["-O1x"],
            &["-oout"],
            &["--maxrregcount", "64", "64"],
            &[""],
        ] {
            let error = check(flags).unwrap_err();
            assert!(error.contains("after -- on the command line"), "{error}");
        }
    }
}
