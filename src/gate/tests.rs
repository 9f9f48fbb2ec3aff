//! The gate on figures made by hand: every kind of finding, and every way it must not pass.

use super::*;
use crate::base::Line;
use crate::report::{Advisory, Confidence, Issue, Severity};

fn kernel(name: &str, registers: u64) -> KernelFigures {
    let mut kernel = KernelFigures { name: name.to_owned(), ..KernelFigures::default() };
    for (metric, value) in [
        (Metric::Registers, registers),
        (Metric::SpillStoreBytes, 0),
        (Metric::Instructions, 100),
        (Metric::CodeBytes, 1600),
        (Metric::WarpsPerSm, 32),
    ] {
        kernel.figures.set(metric, Some(value));
    }
    kernel
}

fn unit(kernels: Vec<KernelFigures>) -> UnitFigures {
    UnitFigures {
        input: "k/a.ptx".to_owned(),
        arch: "sm_90a".to_owned(),
        ptxas: Some("13.4.92".to_owned()),
        source: Some("sha256:1".to_owned()),
        kernels,
        ..UnitFigures::default()
    }
}

fn measured(unit: UnitFigures) -> Measured {
    let place = || KernelPlace {
        ptx_line: Some(Line(7)),
        peak_line: Some(Line(20)),
        spill_line: Some(Line(30)),
        setmaxnreg_line: Some(Line(40)),
        loop_line: None,
        missing: Vec::new(),
        issues: Vec::new(),
    };
    let places = unit.kernels.iter().map(|_| place()).collect();
    Measured { path: unit.input.clone(), places, unit, ..Measured::default() }
}

struct Setting<'a> {
    policy: Policy,
    ratchet: bool,
    today: &'a str,
    kernels: Vec<Glob>,
    some_inputs: bool,
}

impl Default for Setting<'_> {
    fn default() -> Self {
        Setting { policy: Policy::standard(), ratchet: false, today: "2026-11-15", kernels: vec![], some_inputs: false }
    }
}

impl Setting<'_> {
    fn policy(text: &str) -> Self {
        Setting { policy: Policy::parse(text).unwrap(), ..Setting::default() }
    }

    fn check(&self, before: Vec<UnitFigures>, after: Vec<Measured>) -> Verdict {
        let baseline = Baseline { units: before };
        // Through the file and back: what is compared is what was written.
        let baseline = Baseline::parse(&baseline.to_text()).unwrap();
        let exists = |_: &str| true;
        let scope = Scope {
            kernels: &self.kernels,
            some_inputs: self.some_inputs,
            some_arches: false,
            some_ptxas: false,
            exists: &exists,
        };
        check(&Check {
            measured: &after,
            baseline: &baseline,
            policy: &self.policy,
            ratchet: self.ratchet,
            today: self.today.parse().unwrap(),
            scope: &scope,
            baseline_name: "ptxinspect.lock.json",
        })
    }

    fn kernels(&self, before: KernelFigures, after: KernelFigures) -> Verdict {
        self.check(vec![unit(vec![before])], vec![measured(unit(vec![after]))])
    }
}

fn kinds(verdict: &Verdict) -> Vec<(FindingKind, Level)> {
    verdict.findings.iter().map(|finding| (finding.kind, finding.level)).collect()
}

#[test]
fn nothing_changed_passes_and_says_nothing() {
    let verdict = Setting::default().kernels(kernel("k", 40), kernel("k", 40));
    assert_eq!((verdict.outcome, kinds(&verdict)), (Outcome::Pass, vec![]));
    assert_eq!((verdict.totals.kernels, verdict.totals.compared), (1, 1));
}

#[test]
fn one_more_register_fails_at_the_peak() {
    let verdict = Setting::default().kernels(kernel("k", 40), kernel("k", 41));
    assert_eq!(verdict.outcome, Outcome::Fail);
    let finding = &verdict.findings[0];
    assert_eq!((finding.kind, finding.ptx_line), (FindingKind::Regression, Some(Line(20))));
    assert_eq!((finding.before, finding.after), (Some(40), Some(41)));
    assert!(verdict.units[0].kernels[0].patch.is_some());
}

#[test]
fn less_occupancy_is_worse_and_more_is_better() {
    let mut fewer = kernel("k", 40);
    fewer.figures.set(Metric::WarpsPerSm, Some(16));
    assert_eq!(Setting::default().kernels(kernel("k", 40), fewer.clone()).outcome, Outcome::Fail);
    assert_eq!(Setting::default().kernels(fewer, kernel("k", 40)).outcome, Outcome::Pass);
}

#[test]
fn size_is_tolerated_by_five_percent() {
    let with = |instructions| {
        let mut kernel = kernel("k", 40);
        kernel.figures.set(Metric::Instructions, Some(instructions));
        kernel
    };
    assert_eq!(Setting::default().kernels(kernel("k", 40), with(105)).outcome, Outcome::Pass);
    assert_eq!(Setting::default().kernels(kernel("k", 40), with(106)).outcome, Outcome::Fail);
    let wide = Setting::policy("[metrics]\ninstructions = \"10%\"\nregisters = 2");
    assert_eq!(wide.kernels(kernel("k", 40), with(110)).outcome, Outcome::Pass);
    assert_eq!(wide.kernels(kernel("k", 40), kernel("k", 42)).outcome, Outcome::Pass);
    assert_eq!(wide.kernels(kernel("k", 40), kernel("k", 43)).outcome, Outcome::Fail);
}

#[test]
fn a_figure_that_is_not_known_any_more_is_an_error() {
    let mut after = kernel("k", 40);
    after.figures.set(Metric::WarpsPerSm, None);
    let verdict = Setting::default().kernels(kernel("k", 40), after.clone());
    assert_eq!((verdict.outcome, kinds(&verdict)), (Outcome::Error, vec![(FindingKind::NotKnown, Level::Error)]));
    // The other way round there is nothing to compare with; a ratchet wants it recorded.
    assert_eq!(Setting::default().kernels(after.clone(), kernel("k", 40)).outcome, Outcome::Pass);
    let ratchet = Setting { ratchet: true, ..Setting::default() };
    assert_eq!(ratchet.kernels(after, kernel("k", 40)).outcome, Outcome::Fail);
}

#[test]
fn improvements_are_said_and_a_ratchet_wants_them_recorded() {
    let verdict = Setting::default().kernels(kernel("k", 40), kernel("k", 32));
    assert_eq!((verdict.outcome, kinds(&verdict)), (Outcome::Pass, vec![(FindingKind::Improvement, Level::Note)]));
    let ratchet = Setting { ratchet: true, ..Setting::default() };
    assert_eq!(ratchet.kernels(kernel("k", 40), kernel("k", 32)).outcome, Outcome::Fail);
}

#[test]
fn new_removed_and_renamed_kernels_are_said() {
    let verdict = Setting::default().check(
        vec![unit(vec![kernel("gone", 10), kernel("old_name", 20)])],
        vec![measured(unit(vec![kernel("fresh", 30), kernel("new_name", 20)]))],
    );
    assert_eq!(
        kinds(&verdict),
        [
            (FindingKind::NewKernel, Level::Failure),
            (FindingKind::RemovedKernel, Level::Failure),
            (FindingKind::RenamedKernel, Level::Warning)
        ]
    );
    let lenient = Setting::policy("new = \"allow\"\nremoved = \"warn\"");
    let verdict = lenient.check(vec![unit(vec![kernel("gone", 10)])], vec![measured(unit(vec![kernel("fresh", 30)]))]);
    assert_eq!(verdict.outcome, Outcome::Pass);
}

#[test]
fn a_renamed_kernel_does_not_hide_what_got_worse() {
    let verdict = Setting::default()
        .check(vec![unit(vec![kernel("k_0123abcd", 20)])], vec![measured(unit(vec![kernel("k_89ef4567", 24)]))]);
    assert_eq!(kinds(&verdict), [(FindingKind::Regression, Level::Failure)]);
}

#[test]
fn budgets_hold_whatever_the_baseline_says() {
    let policy = "[[rule]]\nkernel = \"k*\"\nbudgets = [\"registers <= 32\", \"warps_per_sm >= 16\"]";
    let verdict = Setting::policy(policy).kernels(kernel("k", 40), kernel("k", 40));
    assert_eq!(kinds(&verdict), [(FindingKind::Budget, Level::Failure)]);
    let unknown = "[[rule]]\nkernel = \"k\"\nbudgets = [\"peak_live <= 32\"]";
    let verdict = Setting::policy(unknown).kernels(kernel("k", 40), kernel("k", 40));
    assert_eq!(verdict.outcome, Outcome::Error, "a budget on a figure that is not known");
}

#[test]
fn an_allowance_holds_to_its_last_day_and_to_its_figure() {
    let policy = |more: &str| {
        format!(
            "[[allow]]\nkernel = \"k\"\nmetric = \"registers\"\nreason = \"issue 12\"\nexpires = 2026-11-30\n{more}"
        )
    };
    let on = |today, more: &str| {
        let setting = Setting { today, ..Setting::policy(&policy(more)) };
        setting.kernels(kernel("k", 40), kernel("k", 44))
    };
    assert_eq!(kinds(&on("2026-11-30", "")), [(FindingKind::Allowed, Level::Note)]);
    assert_eq!(on("2026-12-01", "").outcome, Outcome::Fail);
    assert!(on("2026-12-01", "").findings[0].message.contains("expired on 2026-11-30"));
    assert_eq!(on("2026-11-30", "up_to = 44").outcome, Outcome::Pass);
    assert_eq!(on("2026-11-30", "up_to = 43").outcome, Outcome::Fail);
    let idle = Setting { today: "2026-12-01", ..Setting::policy(&policy("")) };
    let verdict = idle.kernels(kernel("k", 40), kernel("k", 40));
    assert_eq!(kinds(&verdict), [(FindingKind::ExpiredAllowance, Level::Warning)]);
}

fn says(code: Option<&str>, severity: Severity) -> Measured {
    let mut unit = unit(vec![kernel("k", 40)]);
    unit.kernels[0].advisories.extend(code.map(|code| (code.to_owned(), 1)));
    let message = Advisory {
        code: code.map(str::to_owned),
        severity,
        kernel: Some("k".to_owned()),
        ptx_line: Some(Line(55)),
        first_ptx_line: None,
        source_line: None,
        message: "setmaxnreg ignored".to_owned(),
    };
    Measured { messages: vec![message], ..measured(unit) }
}

#[test]
fn a_message_that_is_not_recorded_fails_and_a_denied_one_always_does() {
    let before = || vec![unit(vec![kernel("k", 40)])];
    let verdict = Setting::default().check(before(), vec![says(Some("C7508"), Severity::Info)]);
    assert_eq!(kinds(&verdict), [(FindingKind::NewAdvisory, Level::Failure)]);
    assert_eq!(verdict.findings[0].ptx_line, Some(Line(55)));
    let recorded = vec![says(Some("C7508"), Severity::Info).unit];
    let verdict = Setting::default().check(recorded.clone(), vec![says(Some("C7508"), Severity::Info)]);
    assert_eq!(verdict.outcome, Outcome::Pass);
    for deny in ["C7508", "c7508", "advisories"] {
        let setting = Setting::policy(&format!("deny = [\"{deny}\"]"));
        let verdict = setting.check(recorded.clone(), vec![says(Some("C7508"), Severity::Info)]);
        assert_eq!(kinds(&verdict), [(FindingKind::DeniedCode, Level::Failure)], "{deny}");
    }
    let off = Setting::policy("advisories = \"allow\"");
    assert_eq!(off.check(before(), vec![says(Some("C7508"), Severity::Info)]).outcome, Outcome::Pass);
}

#[test]
fn errors_never_look_like_a_pass() {
    let broken = Measured { error: Some("ptxas does not accept it".to_owned()), ..measured(unit(vec![])) };
    let verdict = Setting::default().check(vec![unit(vec![kernel("k", 40)])], vec![broken]);
    assert_eq!(kinds(&verdict), [(FindingKind::CannotCompile, Level::Error)]);
    let same = || (vec![unit(vec![kernel("k", 40)])], vec![measured(unit(vec![kernel("k", 40)]))]);
    for policy in [
        "[[rule]]\nkernel = \"kk*\"\nbudgets = [\"registers <= 99\"]",
        "[[allow]]\nkernel = \"kk\"\ncode = \"C7510\"\nreason = \"r\"\nexpires = 2030-01-01",
    ] {
        let (before, after) = same();
        assert_eq!(Setting::policy(policy).check(before, after).outcome, Outcome::Error, "{policy}");
    }
    let (before, after) = same();
    let named = Setting { kernels: vec![Glob::new("other")], ..Setting::default() };
    assert_eq!(named.check(before, after).outcome, Outcome::Error);
    let (before, mut after) = same();
    after[0].unit.not_understood = 1;
    assert_eq!(Setting::default().check(before, after).outcome, Outcome::Error);
}

#[test]
fn a_unit_that_is_gone_fails_unless_it_was_not_asked_for() {
    let mut other = unit(vec![kernel("k", 40)]);
    other.input = "k/b.ptx".to_owned();
    let before = || vec![unit(vec![kernel("k", 40)]), other.clone()];
    let after = || vec![measured(unit(vec![kernel("k", 40)]))];
    let verdict = Setting::default().check(before(), after());
    assert_eq!(kinds(&verdict), [(FindingKind::RemovedKernel, Level::Failure)]);
    let some = Setting { some_inputs: true, ..Setting::default() };
    assert_eq!(kinds(&some.check(before(), after())), [(FindingKind::NotChecked, Level::Note)]);
}

#[test]
fn another_ptxas_is_compared_all_the_same() {
    let mut after = unit(vec![kernel("k", 44)]);
    after.ptxas = Some("13.5.1".to_owned());
    let verdict = Setting::default().check(vec![unit(vec![kernel("k", 40)])], vec![measured(after)]);
    assert_eq!(
        kinds(&verdict),
        [(FindingKind::Regression, Level::Failure), (FindingKind::OtherToolchain, Level::Note)]
    );
}

#[test]
fn policies_that_mean_nothing_are_refused() {
    for (policy, why) in [
        ("inputz = []", "unknown field"),
        ("inputs = [{ path = \"a\" }]", "expected a pattern"),
        ("[metrics]\nregister = 0", "is not a metric"),
        ("[metrics]\nregisters = \"much\"", "is not a tolerance"),
        ("[[rule]]\nkernel = \"k\"", "says nothing"),
        ("[[rule]]\nkernel = \"k\"\nbudgets = [\"registers 168\"]", "is not a budget"),
        ("[[rule]]\nkernel = \"k\"\nbudgets = [\"regs <= 168\"]", "is not a metric"),
        ("[[allow]]\nkernel = \"k\"\nmetric = \"registers\"\nexpires = 2027-01-01", "says why"),
        ("[[allow]]\nkernel = \"k\"\nmetric = \"registers\"\nreason = \"r\"", "ends"),
        ("[[allow]]\nkernel = \"k\"\nreason = \"r\"\nexpires = 2027-01-01", "either metric"),
        ("[[allow]]\nkernel = \"k\"\ncode = \"C7510\"\nreason = \"r\"\nexpires = \"2027-02-30\"", "is not a date"),
        ("new = \"perhaps\"", "unknown variant"),
    ] {
        let error = Policy::parse(policy).unwrap_err().to_string();
        assert!(error.contains(why), "{policy}: {error}");
    }
}

#[test]
fn baselines_that_are_not_ours_are_refused() {
    let good = Baseline { units: vec![unit(vec![kernel("k", 40)])] }.to_text();
    assert!(Baseline::parse(&good).is_ok());
    for (from, to, why) in [
        ("ptxinspect.lock/1", "ptxinspect.lock/2", "this ptxinspect knows"),
        ("\"registers\": 40", "\"registers\": \"40\"", "whole number"),
        ("\"registers\": 40", "\"registers\": -1", "whole number"),
        ("\"registers\": 40", "\"warmth\": 40", "newer ptxinspect"),
        ("\"arch\": \"sm_90a\"", "\"arch\": 90", "not a baseline"),
        ("{", "<<<<<<< HEAD", "not a baseline"),
    ] {
        let error = Baseline::parse(&good.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(why), "{to}: {error}");
    }
    let twice = Baseline { units: vec![unit(vec![kernel("k", 40), kernel("k", 41)])] }.to_text();
    assert!(Baseline::parse(&twice).unwrap_err().to_string().contains("twice"));
}

#[test]
fn a_baseline_reads_back_as_it_was_and_is_sorted() {
    let mut second = unit(vec![kernel("quote\"d", 1)]);
    second.input = "b.ptx".to_owned();
    second.flags = vec!["-O1".to_owned()];
    second.kernels[0].within = Some("outer".to_owned());
    second.kernels[0].setmaxnreg = Some("honoured".to_owned());
    let baseline = Baseline { units: vec![unit(vec![kernel("k", 40)]), second] };
    let text = baseline.to_text();
    let read = Baseline::parse(&text).unwrap();
    assert_eq!(read.units.iter().map(|unit| &*unit.input).collect::<Vec<_>>(), ["b.ptx", "k/a.ptx"]);
    assert_eq!(read.to_text(), text);
    assert_eq!(Baseline::parse(&Baseline::default().to_text()).unwrap(), Baseline::default());
}

#[test]
fn an_update_touches_what_was_asked_for() {
    let exists = |_: &str| true;
    let scope = |kernels| Scope { kernels, some_inputs: true, some_arches: false, some_ptxas: false, exists: &exists };
    let before = Baseline { units: vec![unit(vec![kernel("a", 10), kernel("b", 20)])] };
    let mut now = unit(vec![kernel("a", 11), kernel("b", 21), kernel("c", 30)]);
    now.source = Some("sha256:2".to_owned());
    let only = [Glob::new("a")];
    let after = update(&before, &[measured(now.clone())], &scope(&only));
    let registers = |baseline: &Baseline| -> Vec<Option<u64>> {
        baseline.units[0].kernels.iter().map(|kernel| kernel.figures.get(Metric::Registers)).collect()
    };
    assert_eq!(registers(&after), [Some(11), Some(20)]);
    assert_eq!(registers(&update(&before, &[measured(now)], &scope(&[]))), [Some(11), Some(21), Some(30)]);
    // A moved comment changes the input and no figure: the file stays as it is.
    let mut same = unit(vec![kernel("a", 10), kernel("b", 20)]);
    same.source = Some("sha256:3".to_owned());
    assert_eq!(update(&before, &[measured(same)], &scope(&[])), before);
}

/// A kernel in which a check finds something.
fn found(code: &str, confidence: Confidence) -> Measured {
    let mut unit = unit(vec![kernel("k", 32)]);
    let label = if confidence == Confidence::Possible { format!("{code} possible") } else { code.to_owned() };
    unit.kernels[0].findings.insert(label, 1);
    let mut measured = measured(unit);
    measured.places[0].issues.push(Issue {
        code: code.to_owned(),
        severity: Severity::Warning,
        confidence,
        ptx_line: Some(Line(44)),
        source_line: None,
        message: "hangs".to_owned(),
        reasoning: String::new(),
        witness: Vec::new(),
        mend: None,
    });
    measured
}

#[test]
fn findings_of_checks_fail_where_they_are_new_or_denied_and_name_their_line() {
    let clean = unit(vec![kernel("k", 32)]);
    let likely = found("PI203", Confidence::Likely);
    let possible = found("PI203", Confidence::Possible);
    let run = |policy: &str, before: &UnitFigures, after: &Measured| {
        let verdict = Setting::policy(policy).check(vec![before.clone()], vec![after.clone()]);
        let said: Vec<_> =
            verdict.findings.iter().map(|finding| (finding.kind, finding.level, finding.ptx_line)).collect();
        (verdict.outcome, said)
    };
    let line = Some(Line(44));
    let fails = |kind| (Outcome::Fail, vec![(kind, Level::Failure, line)]);
    assert_eq!(run("", &clean, &likely), fails(FindingKind::NewFinding));
    let said = (Outcome::Pass, vec![(FindingKind::NewFinding, Level::Warning, line)]);
    assert_eq!(run("", &clean, &possible), said);
    assert_eq!(run("findings = \"warn\"", &clean, &likely), said);
    // Recorded is fine, surer than recorded is not.
    let recorded = |measured: &Measured| measured.unit.clone();
    assert_eq!(run("", &recorded(&likely), &likely), (Outcome::Pass, vec![]));
    assert_eq!(run("", &recorded(&possible), &likely), fails(FindingKind::NewFinding));
    // Denied is denied, recorded or not; an allowance lets it pass.
    let denied = fails(FindingKind::DeniedCode);
    assert_eq!(run("deny = [\"pi203\"]", &recorded(&likely), &likely), denied);
    assert_eq!(run("deny = [\"pi203\"]", &clean, &possible), denied);
    assert_eq!(run("deny = [\"warnings\"]", &recorded(&likely), &likely), denied);
    assert_eq!(run("deny = [\"warnings\"]", &recorded(&possible), &possible).0, Outcome::Pass);
    let allowed =
        "deny = [\"PI203\"]\n[[allow]]\nkernel = \"k\"\ncode = \"PI203\"\nreason = \"r\"\nexpires = 2030-01-01";
    assert_eq!(run(allowed, &clean, &likely), (Outcome::Pass, vec![(FindingKind::Allowed, Level::Note, line)]));
}

#[test]
fn a_misspelt_code_is_an_error() {
    for text in ["deny = [\"C75O8\"]", "deny = [\"setmaxnreg\"]", "deny = [\"warning\"]", "deny = [\"PI\"]"] {
        let error = Policy::parse(text).unwrap_err().to_string();
        assert!(error.contains("is not a code: did you mean "), "{error}");
    }
    assert_eq!(Policy::parse("deny = [\" c7508\", \"Warnings\", \"pi203\"]").unwrap().deny.len(), 3);
}

#[test]
fn setmaxnreg_that_comes_out_otherwise_fails_and_one_that_cannot_be_told_is_an_error() {
    let with =
        |setmaxnreg: Option<&str>| KernelFigures { setmaxnreg: setmaxnreg.map(str::to_owned), ..kernel("k", 168) };
    let run = |was: Option<&str>, is: Option<&str>| {
        let verdict = Setting::default().kernels(with(was), with(is));
        (kinds(&verdict), verdict.findings.first().and_then(|finding| finding.ptx_line))
    };
    let fails = (vec![(FindingKind::Setmaxnreg, Level::Failure)], Some(Line(40)));
    assert_eq!(run(Some("honoured, pool exact"), Some("dropped")), fails);
    assert_eq!(run(Some("honoured, pool exact"), Some("honoured, pool never")), fails);
    assert_eq!(run(Some("honoured, pool exact"), None), fails);
    let unknown = (vec![(FindingKind::NotKnown, Level::Error)], Some(Line(40)));
    assert_eq!(run(Some("honoured, pool exact"), Some("unknown")), unknown);
    for (was, is) in
        [(None, None), (None, Some("dropped")), (Some("unknown"), Some("dropped")), (Some("unknown"), None)]
    {
        assert_eq!(run(was, is), (vec![], None), "{was:?} {is:?}");
    }
}
