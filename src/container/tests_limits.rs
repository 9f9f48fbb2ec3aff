//! Inputs that are made to run away.

use super::tests::{Found, entry, errors, fatbin, look, stored, zip_of};
use super::*;

fn limited(bytes: Vec<u8>, limits: Limits) -> Found {
    let container = Container::from_bytes("x", bytes, Options { limits, ..Options::default() });
    let whole: Found = container.entries().collect();
    let parts: Found = container.parts().iter().flat_map(Container::entries).collect();
    let fine = |found: &Found| found.iter().filter(|one| one.is_ok()).count();
    assert!(fine(&parts) <= fine(&whole), "parts have no more than their share");
    whole
}

/// A universal Mach-O file of slices.
fn universal(slices: &[(u32, u32)]) -> Vec<u8> {
    let mut file = vec![0xca, 0xfe, 0xba, 0xbe];
    file.extend((slices.len() as u32).to_be_bytes());
    for (offset, bytes) in slices {
        for word in [7, 3, *offset, *bytes, 0] {
            file.extend(u32::to_be_bytes(word));
        }
    }
    file
}

#[test]
fn a_universal_file_is_no_part_of_itself() {
    let file = universal(&[(0, 808); 40]);
    assert_eq!(file.len(), 808);
    let found = look("u", file);
    assert_eq!(found.len(), 40);
    assert!(errors(&found).iter().all(|line| line.contains("overlaps the table of files")), "{:?}", errors(&found));
    // Nor are its parts of each other.
    let inner = fatbin(&[stored("k")]);
    let mut file = universal(&[(128, inner.len() as u32), (128, inner.len() as u32), (128 + inner.len() as u32, 8)]);
    file.resize(128, 0);
    file.extend(&inner);
    file.extend([0; 8]);
    let found = look("u", file);
    assert_eq!(found.iter().filter(|one| one.is_ok()).count(), 1);
    assert_eq!(errors(&found), ["u: the file for i386 overlaps the file for i386"]);
}

#[test]
fn zips_in_zips_unpack_to_so_much_and_no_more() {
    use zip::CompressionMethod;
    const DEFLATE: CompressionMethod = CompressionMethod::DEFLATE;
    let text = [b".version 8.0\n.target sm_80\n".to_vec(), vec![b' '; 100_000]].concat();
    let mut zip = zip_of(&[("a.ptx", &text, DEFLATE), ("b.ptx", &text, DEFLATE)]);
    for _ in 0..4 {
        zip = zip_of(&[
            ("a.zip", &zip, DEFLATE),
            ("b.zip", &zip, DEFLATE),
            ("c.zip", &zip, DEFLATE),
            ("d.zip", &zip, DEFLATE),
        ]);
    }
    let (count, all) = (512, 512 * 100_000);
    assert_eq!(look("z", zip.clone()).iter().filter(|one| one.is_ok()).count(), count);
    let found = limited(zip, Limits { bytes: Some(all / 4), ..Limits::default() });
    let fine = found.iter().filter(|one| one.is_ok()).count();
    assert!((100..=128).contains(&fine), "{fine}");
    let said = errors(&found);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("unpacks to more than 12800000 bytes") && said[0].contains("--max-bytes"), "{said:?}");
}

#[test]
fn members_of_a_block_count_each() {
    // One block of a megabyte whose thousand members are all of it.
    let data = vec![0; 1 << 20];
    let packed = lz4_flex::block::compress(&data);
    let member = || {
        let mut row = entry(2, 80, 0x2000, &[], 0, 1 << 20);
        row[4..8].fill(0);
        row[8..16].copy_from_slice(&(1_u64 << 20).to_le_bytes());
        row
    };
    let rows: Vec<u8> = (0..1000).flat_map(|_| member()).collect();
    let table = [&1000_u32.to_le_bytes()[..], &(rows.len() as u32).to_le_bytes()[..], &rows].concat();
    let mut block = entry(0x100, 0, 0x2000, &packed, packed.len() as u32, 1 << 20);
    block[4..8].copy_from_slice(&(64 + table.len() as u32).to_le_bytes());
    block[20..24].copy_from_slice(&64_u32.to_le_bytes());
    block.splice(64..64, table);
    let found = look("f", fatbin(&[block]));
    let (fine, said) = (found.iter().filter(|one| one.is_ok()).count(), errors(&found));
    assert!((64..80).contains(&fine), "{fine}");
    assert!(said.len() == 1 && said[0].contains("--max-bytes"), "{said:?}");
}

#[test]
fn entries_and_depth_have_an_end() {
    let entries: Vec<Vec<u8>> = (0..1000).map(|_| stored("k")).collect();
    let found = limited(fatbin(&entries), Limits { entries: 100, ..Limits::default() });
    let said = errors(&found);
    assert!(found.len() <= 100 && said.len() == 1, "{} {said:?}", found.len());
    assert!(said[0].contains("more than 100 files") && said[0].contains("--max-entries"), "{said:?}");

    let mut zip = b".version 8.0\n".to_vec();
    for _ in 0..100 {
        zip = zip_of(&[("a", &zip, zip::CompressionMethod::STORE)]);
    }
    let said = errors(&look("z", zip.clone()));
    assert!(said.len() == 1 && said[0].contains("more than 64 deep") && said[0].contains("--max-depth"), "{said:?}");
    assert_eq!(errors(&limited(zip, Limits { depth: 101, ..Limits::default() })), [""; 0]);
}

#[test]
fn folders_are_followed_so_deep() {
    let folder = tempfile::tempdir().unwrap();
    let deep = (0..10).fold(folder.path().to_path_buf(), |path, _| path.join("d"));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("k.ptx"), ".version 8.0\n.target sm_80\n").unwrap();
    let open = |depth| {
        let limits = Limits { depth, ..Limits::default() };
        let found: Found = Container::open(folder.path(), Options { limits, ..Options::default() }).entries().collect();
        (found.iter().filter(|one| one.is_ok()).count(), errors(&found))
    };
    assert_eq!(open(11), (1, Vec::new()));
    let (fine, said) = open(10);
    assert!(fine == 0 && said.len() == 1 && said[0].contains("--max-depth"), "{said:?}");
}

#[test]
fn names_are_not_copied_without_end() {
    // A name of 100 KB that every member of the archive has.
    let head =
        |name: &str, bytes: usize| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{bytes:<10}`\n", 0, 0, 0, 644).into_bytes();
    let long = "n".repeat(100_000);
    let mut archive = b"!<arch>\n".to_vec();
    archive.extend(head("//", long.len() + 2));
    archive.extend(format!("{long}/\n").bytes());
    for _ in 0..100 {
        archive.extend(head("/0", 8));
        archive.extend([0; 8]);
    }
    let said = errors(&look("a", archive));
    assert!(said.len() == 1 && said[0].contains("name of 100000 bytes"), "{said:?}");
    // A zip's own names, around many entries.
    let inner = fatbin(&(0..100).map(|_| stored("k")).collect::<Vec<_>>());
    let said = errors(&look("z", zip_of(&[(&"n".repeat(5000), &inner, zip::CompressionMethod::STORE)])));
    assert!(said.len() == 1 && said[0].contains("name of 5000 bytes"), "{said:?}");
}

#[test]
fn a_search_looks_at_every_row_of_a_table_once() {
    // What looks like a cubin every 64 bytes, each with 65,535 sections in the same place.
    let mut start = b"\x7fELF\x02\x01\x01\x33".to_vec();
    start.resize(64, 0);
    start[18..20].copy_from_slice(&190_u16.to_le_bytes());
    start[40..48].copy_from_slice(&64_u64.to_le_bytes());
    start[60..62].copy_from_slice(&u16::MAX.to_le_bytes());
    let mut host = b"\x7fELF\x02\x01\x01".to_vec();
    host.resize(64, 0);
    host[16..20].copy_from_slice(&[1, 0, 62, 0]);
    host.extend(start.repeat(1000));
    let options = Options { scan: true, ..Options::default() };
    let found: Found = Container::from_bytes("h", host, options).entries().collect();
    let said = errors(&found);
    assert!(said.iter().any(|line| line.contains("is not searched any further")), "{said:?}");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_have_an_end() {
    let limits = Limits { bytes: Some(1 << 16), ..Limits::default() };
    let open =
        |path: &Path| -> Found { Container::open(path, Options { limits, ..Options::default() }).entries().collect() };
    let said = errors(&open(Path::new("/dev/zero")));
    assert!(
        said.len() == 1 && said[0].contains("more than 65536 bytes") && said[0].contains("--max-bytes"),
        "{said:?}"
    );
    // Somebody who writes to a pipe is read to the end.
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::write(pipe, ".version 8.0\n.target sm_80\n"))
    };
    let found = open(&pipe);
    writer.join().unwrap().unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].is_ok(), "{found:?}");
}
