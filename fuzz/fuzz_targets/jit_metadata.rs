//! Any bytes as what a compiler's cache says beside a cubin: the launch that it tells is one that a GPU could take.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::container::JitMetadata;

fuzz_target!(|data: &[u8]| {
    assert!(JitMetadata::parse(data, Some("k.ptx".to_owned())).is_some());
    let launch = JitMetadata::parse(data, None).and_then(|metadata| metadata.launch());
    if let Some(launch) = launch {
        assert!((32..=1024).contains(&launch.threads) && launch.threads % 32 == 0, "{launch:?}");
        assert!(launch.smem_dynamic_bytes <= u64::from(u32::MAX), "{launch:?}");
    }
});
