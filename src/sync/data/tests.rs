//! The pages of `docs/codes`: what a page calls broken is told by its rule, and what it calls right by none.

use crate::base::codes;
use crate::ptx;
use crate::simt::{BlockSize, Graph};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::{Family, Rule};
use crate::sync::{Effort, data, execute_kernel};

fn found(text: &str) -> Vec<Finding> {
    let module = ptx::parse(text);
    let function = module.functions().find(|function| function.is_definition()).unwrap();
    let dimensions = function.header().required_threads().unwrap();
    let size = BlockSize { dimensions, exact: true };
    let graph = Graph::build(&function);
    let executed = execute_kernel(&function, &graph, size, &[], Effort::default());
    data::check(&function, &graph, size, executed.as_ref()).0
}

/// The kernels of a page, in order.
fn examples(page: &str) -> Vec<&str> {
    page.split("```ptx\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn pages_show_what_is_broken_and_what_is_right() {
    for rule in Rule::ALL.iter().filter(|rule| rule.family() == Family::Data) {
        let page = codes::page(rule.code()).unwrap();
        let [broken, right] = examples(page)[..] else { panic!("{rule}: one broken example and one right one") };
        let told = found(broken);
        let codes: Vec<&str> = told.iter().map(|finding| finding.rule.code()).collect();
        assert_eq!(codes, [rule.code()], "{rule}: {told:?}");
        let sure = if *rule == Rule::ReadBeforeEnd { Confidence::Possible } else { Confidence::Likely };
        assert!(told.iter().all(|finding| finding.confidence == sure), "{told:?}");
        assert_eq!(found(right), [], "{rule}: the right example");
    }
}
