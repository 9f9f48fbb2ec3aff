//! The policy file, `ptxinspect.toml`: what is checked, how much worse it may get, what is let pass and until when.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::date::Date;
use super::denial::Denial;
use super::glob::Glob;
use super::metric::Metric;

/// What a team has agreed on.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Inputs, as patterns over paths from the policy's folder.
    pub inputs: Vec<InputPattern>,
    /// Architectures.
    pub arch: Vec<String>,
    /// The ptxas versions.
    pub ptxas: Vec<String>,
    /// Flags for ptxas; those that name files are refused by whoever runs it.
    pub flags: Vec<String>,
    /// The baseline's path from the policy's folder.
    pub baseline: Option<String>,
    /// Threads of a block for kernels whose directives do not say.
    pub threads: Option<u32>,
    /// Shared memory asked for at launch.
    pub smem_dynamic: Option<u64>,
    /// Whether improvements must be recorded.
    pub ratchet: bool,
    /// What a kernel that is not recorded is.
    pub new: Action,
    /// What a recorded kernel that is gone is.
    pub removed: Action,
    /// What a kernel under another name is.
    pub renamed: Action,
    /// What a message of ptxas that is not recorded is.
    pub advisories: Action,
    /// What a finding of a check (`PI203`) that is not recorded is.
    pub findings: Action,
    /// Codes that fail whether recorded or not: `C7508`, `PI203`, `warnings`, `advisories`.
    pub deny: Vec<Denial>,
    /// How much worse each metric may get; none: not compared.
    pub metrics: BTreeMap<Metric, Option<Tolerance>>,
    /// Rules for some kernels, in the order of the file.
    pub rules: Vec<Rule>,
    /// What is let pass.
    pub allowances: Vec<Allowance>,
}

/// Some inputs, and what they are compiled for where that is not what all are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputPattern {
    /// The pattern.
    pub path: String,
    /// Architectures of these alone; none: the policy's.
    pub arch: Vec<String>,
}

/// What to do about something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It fails.
    #[default]
    Deny,
    /// It is said.
    Warn,
    /// It is fine.
    Allow,
}

/// How much worse a figure may get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// By so many.
    Absolute(u64),
    /// By so many of a hundred of what it was.
    Percent(f64),
}

impl Tolerance {
    /// Whether a loss against a figure is within it.
    pub fn covers(self, before: u64, loss: u64) -> bool {
        match self {
            Tolerance::Absolute(most) => loss <= most,
            Tolerance::Percent(percent) => loss as f64 <= before as f64 * percent / 100.0,
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tolerance::Absolute(most) => write!(f, "{most}"),
            Tolerance::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

/// `registers <= 168`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Of what.
    pub metric: Metric,
    relation: Relation,
    /// The bound.
    pub bound: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    AtMost,
    Below,
    Exactly,
    AtLeast,
    Above,
}

const RELATIONS: [(&str, Relation); 5] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("==", Relation::Exactly),
    ("<", Relation::Below),
    (">", Relation::Above),
];

impl Budget {
    /// Whether a figure keeps it.
    pub fn holds(&self, value: u64) -> bool {
        match self.relation {
            Relation::AtMost => value <= self.bound,
            Relation::Below => value < self.bound,
            Relation::Exactly => value == self.bound,
            Relation::AtLeast => value >= self.bound,
            Relation::Above => value > self.bound,
        }
    }

    /// None of it at all.
    pub fn none_of(metric: Metric) -> Budget {
        Budget { metric, relation: Relation::AtMost, bound: 0 }
    }

    fn parse(text: &str) -> Result<Budget, String> {
        let found = RELATIONS.iter().find_map(|(sign, relation)| Some((text.split_once(sign)?, *relation)));
        let Some(((metric, bound), relation)) = found else {
            return Err(format!("'{text}' is not a budget: expected one such as \"registers <= 168\""));
        };
        let bound = bound.trim().replace('_', "");
        let bound = bound.parse().map_err(|_| format!("'{text}' has no whole number after the relation"))?;
        Ok(Budget { metric: metric.trim().parse()?, relation, bound })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = RELATIONS.iter().find(|(_, relation)| *relation == self.relation).map_or("", |(sign, _)| sign);
        write!(f, "{} {sign} {}", self.metric, self.bound)
    }
}

/// Which kernels something speaks of.
#[derive(Clone, Debug)]
pub struct Selector {
    /// Over the mangled and the demangled name.
    pub kernel: Glob,
    /// Over the input.
    pub input: Option<Glob>,
    /// Over the architecture.
    pub arch: Option<Glob>,
}

impl Selector {
    /// Whether it speaks of this kernel.
    pub fn matches(&self, input: &str, arch: &str, names: &[String]) -> bool {
        self.input.as_ref().is_none_or(|glob| glob.matches(input))
            && self.arch.as_ref().is_none_or(|glob| glob.matches(arch))
            && names.iter().any(|name| self.kernel.matches(name))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel \"{}\"", self.kernel)?;
        if let Some(input) = &self.input {
            write!(f, ", input \"{input}\"")?;
        }
        if let Some(arch) = &self.arch {
            write!(f, ", arch \"{arch}\"")?;
        }
        Ok(())
    }
}

/// What holds for some kernels.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which.
    pub selector: Selector,
    /// Bounds that do not depend on the baseline.
    pub budgets: Vec<Budget>,
    /// Tolerances that take the place of the general ones.
    pub tolerance: BTreeMap<Metric, Option<Tolerance>>,
}

/// Something that is let pass, for a reason and for a time.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// For which kernels.
    pub selector: Selector,
    /// A metric that may be worse; none where it is a code.
    pub metric: Option<Metric>,
    /// As far as this; none: however far.
    pub up_to: Option<u64>,
    /// A code that may be there; none where it is a metric.
    pub code: Option<String>,
    /// Why.
    pub reason: String,
    /// The last day it holds.
    pub expires: Date,
}

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Not TOML, or not of this shape.
    #[error("{0}")]
    Shape(String),
    /// A value that means nothing.
    #[error("{place}: {problem}")]
    Value {
        /// Where.
        place: String,
        /// What is wrong and what was expected.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPolicy {
    #[serde(default)]
    inputs: Vec<RawInput>,
    #[serde(default)]
    arch: Vec<String>,
    #[serde(default)]
    ptxas: Vec<String>,
    #[serde(default)]
    flags: Vec<String>,
    baseline: Option<String>,
    threads: Option<u32>,
    smem_dynamic: Option<u64>,
    #[serde(default)]
    ratchet: bool,
    new: Option<Action>,
    removed: Option<Action>,
    renamed: Option<Action>,
    advisories: Option<Action>,
    findings: Option<Action>,
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    metrics: BTreeMap<String, RawTolerance>,
    #[serde(default)]
    rule: Vec<RawRule>,
    #[serde(default)]
    allow: Vec<RawAllowance>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a pattern, or a table with path and arch")]
enum RawInput {
    Pattern(String),
    Table(RawInputTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInputTable {
    path: String,
    arch: Vec<String>,
}

impl From<RawInput> for InputPattern {
    fn from(raw: RawInput) -> InputPattern {
        match raw {
            RawInput::Pattern(path) => InputPattern { path, arch: Vec::new() },
            RawInput::Table(RawInputTable { path, arch }) => InputPattern { path, arch },
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawTolerance {
    Compared(bool),
    Number(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    kernel: String,
    input: Option<String>,
    arch: Option<String>,
    #[serde(default)]
    budgets: Vec<String>,
    #[serde(default)]
    tolerance: BTreeMap<String, RawTolerance>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAllowance {
    kernel: String,
    input: Option<String>,
    arch: Option<String>,
    metric: Option<String>,
    up_to: Option<u64>,
    code: Option<String>,
    reason: Option<String>,
    expires: Option<toml::Value>,
}

impl Policy {
    /// The policy of a team that has written none: every metric compared, nothing tolerated but small changes of size.
    pub fn standard() -> Policy {
        let compared = |metric: Metric| metric.is_compared().then(|| metric.default_tolerance());
        let metrics = Metric::ALL.into_iter().map(|metric| (metric, compared(metric))).collect();
        Policy { renamed: Action::Warn, metrics, ..Policy::default() }
    }

    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        let raw: RawPolicy = toml::from_str(text).map_err(|error| PolicyError::Shape(error.to_string()))?;
        let mut policy = Policy::standard();
        policy.metrics.extend(tolerances(raw.metrics, "[metrics]")?);
        for (at, rule) in raw.rule.into_iter().enumerate() {
            let place = format!("[[rule]] {}", at + 1);
            let wrong = |problem| PolicyError::Value { place: place.clone(), problem };
            let budgets = rule.budgets.iter().map(|text| Budget::parse(text)).collect::<Result<Vec<_>, _>>();
            let rule = Rule {
                selector: selector(rule.kernel, rule.input, rule.arch),
                budgets: budgets.map_err(wrong)?,
                tolerance: tolerances(rule.tolerance, &place)?,
            };
            if rule.budgets.is_empty() && rule.tolerance.is_empty() {
                return Err(wrong("it has neither budgets nor a tolerance, so it says nothing".to_owned()));
            }
            policy.rules.push(rule);
        }
        for (at, raw) in raw.allow.into_iter().enumerate() {
            policy.allowances.push(allowance(raw, &format!("[[allow]] {}", at + 1))?);
        }
        Ok(Policy {
            inputs: raw.inputs.into_iter().map(InputPattern::from).collect(),
            arch: raw.arch,
            ptxas: raw.ptxas,
            flags: raw.flags,
            baseline: raw.baseline,
            threads: raw.threads,
            smem_dynamic: raw.smem_dynamic,
            ratchet: raw.ratchet,
            new: raw.new.unwrap_or(Action::Deny),
            removed: raw.removed.unwrap_or(Action::Deny),
            renamed: raw.renamed.unwrap_or(Action::Warn),
            advisories: raw.advisories.unwrap_or(Action::Deny),
            findings: raw.findings.unwrap_or(Action::Deny),
            deny: raw.deny.iter().map(|text| denial(text)).collect::<Result<_, _>>()?,
            ..policy
        })
    }

    /// The tolerance for a kernel's metric: the last rule that speaks of both decides. None: not compared.
    pub fn tolerance(&self, metric: Metric, input: &str, arch: &str, names: &[String]) -> Option<Tolerance> {
        let ruled = self.rules.iter().rev().find_map(|rule| {
            rule.tolerance.get(&metric).filter(|_| rule.selector.matches(input, arch, names)).copied()
        });
        ruled.unwrap_or_else(|| self.metrics.get(&metric).copied().flatten())
    }

    /// Whether any kernel's metric is compared or has a budget.
    pub fn asks_for(&self, metric: Metric) -> bool {
        let compared = |of: &BTreeMap<Metric, Option<Tolerance>>| of.get(&metric).is_some_and(Option::is_some);
        let ruled = |rule: &Rule| compared(&rule.tolerance) || rule.budgets.iter().any(|one| one.metric == metric);
        compared(&self.metrics) || self.rules.iter().any(ruled)
    }

    /// The budgets for a kernel.
    pub fn budgets<'a>(
        &'a self,
        input: &'a str,
        arch: &'a str,
        names: &'a [String],
    ) -> impl Iterator<Item = Budget> + 'a {
        let rules = self.rules.iter().filter(move |rule| rule.selector.matches(input, arch, names));
        let denied = self.deny.iter().flat_map(|denial| denial.budgets());
        rules.flat_map(|rule| rule.budgets.iter().cloned()).chain(denied)
    }

    /// Everything with a pattern, and what to call it.
    pub fn selectors(&self) -> impl Iterator<Item = (&'static str, &Selector)> {
        let rules = self.rules.iter().map(|rule| ("[[rule]]", &rule.selector));
        rules.chain(self.allowances.iter().map(|allowance| ("[[allow]]", &allowance.selector)))
    }
}

fn selector(kernel: String, input: Option<String>, arch: Option<String>) -> Selector {
    Selector { kernel: Glob::new(kernel), input: input.map(Glob::new), arch: arch.map(Glob::new) }
}

fn tolerances(
    raw: BTreeMap<String, RawTolerance>,
    place: &str,
) -> Result<BTreeMap<Metric, Option<Tolerance>>, PolicyError> {
    let one = |(name, raw): (String, RawTolerance)| {
        let metric: Metric = name.parse()?;
        let tolerance = match raw {
            RawTolerance::Compared(false) => None,
            RawTolerance::Compared(true) => Some(metric.default_tolerance()),
            RawTolerance::Number(most) => Some(Tolerance::Absolute(most)),
            RawTolerance::Text(text) => Some(percent(&name, &text)?),
        };
        Ok((metric, tolerance))
    };
    let all: Result<_, String> = raw.into_iter().map(one).collect();
    all.map_err(|problem| PolicyError::Value { place: place.to_owned(), problem })
}

fn percent(name: &str, text: &str) -> Result<Tolerance, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(number) if number.is_finite() && number >= 0.0 => Ok(Tolerance::Percent(number)),
        _ => Err(format!("{name} = \"{text}\" is not a tolerance: expected a number, \"5%\", true or false")),
    }
}

fn denial(text: &str) -> Result<Denial, PolicyError> {
    text.parse().map_err(|problem| PolicyError::Value { place: "deny".to_owned(), problem })
}

/// What an allowance lets pass: a code, or `warning` for a message of ptxas that has none.
fn allowed_code(text: &str, place: &str) -> Result<String, PolicyError> {
    if text.trim().eq_ignore_ascii_case("warning") {
        return Ok("WARNING".to_owned());
    }
    let wrong = |problem| PolicyError::Value { place: place.to_owned(), problem };
    match text.parse().map_err(wrong)? {
        Denial::Code(code) => Ok(code.to_owned()),
        figure => Err(wrong(format!("'{figure}' is not one code: an allowance names a code, or a metric"))),
    }
}

fn allowance(raw: RawAllowance, place: &str) -> Result<Allowance, PolicyError> {
    let wrong = |problem: String| PolicyError::Value { place: place.to_owned(), problem };
    let metric = raw.metric.map(|name| name.parse::<Metric>()).transpose().map_err(wrong)?;
    if metric.is_some() == raw.code.is_some() {
        return Err(wrong("expected either metric = \"…\" or code = \"…\"".to_owned()));
    }
    let Some(reason) = raw.reason.filter(|reason| !reason.trim().is_empty()) else {
        return Err(wrong("expected reason = \"…\": an allowance says why".to_owned()));
    };
    let expires = match raw.expires {
        Some(toml::Value::Datetime(date)) => date.to_string(),
        Some(toml::Value::String(text)) => text,
        _ => return Err(wrong("expected expires = 2027-03-31: an allowance ends".to_owned())),
    };
    Ok(Allowance {
        selector: selector(raw.kernel, raw.input, raw.arch),
        metric,
        up_to: raw.up_to,
        code: raw.code.map(|text| allowed_code(&text, place)).transpose()?,
        reason,
        expires: expires.parse().map_err(wrong)?,
    })
}
