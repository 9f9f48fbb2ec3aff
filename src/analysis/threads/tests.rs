use super::*;
use crate::analysis::roles::roles;
use crate::analysis::setmaxnreg::requested;
use crate::ptx;

fn sample(name: &str) -> String {
    std::fs::read_to_string(format!("{}/testdata/ptx/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn summary(text: &str, size: [u32; 3]) -> Vec<(String, Option<u32>, Option<u32>)> {
    let module = ptx::parse(text);
    let function = module.functions().find(|function| function.is_definition()).unwrap();
    let warps = Warps::of(&function, Some(BlockSize { dimensions: size, exact: true }));
    let asked = requested(&warps);
    roles(&warps, &asked).into_iter().map(|role| (role.name.clone(), role.budget, role.warps())).collect()
}

#[test]
fn roles_of_a_hopper_gemm() {
    let found = summary(&sample("hopper_warp_specialised.ptx"), [384, 1, 1]);
    assert_eq!(found, [("producer".to_owned(), Some(40), Some(4)), ("consumer".to_owned(), Some(232), Some(8))]);
}

#[test]
fn roles_of_a_blackwell_gemm() {
    let found = summary(&sample("blackwell_tcgen05.ptx"), [192, 1, 1]);
    let names: Vec<_> = found.iter().map(|(name, _, warps)| (name.as_str(), *warps)).collect();
    assert_eq!(names, [("mma", Some(1)), ("producer", Some(1)), ("epilogue", Some(4))]);
}
