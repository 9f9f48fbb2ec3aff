//! The JSON Schemas under `docs/schema`, built in.

macro_rules! schemas {
    ($($name:literal),* $(,)?) => {
        /// Every schema by its name, ascending.
        pub const SCHEMAS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../docs/schema/", $name, "-v1.schema.json")))),*];
    };
}

schemas!(
    "annotate",
    "cache",
    "cost",
    "diff",
    "disasm",
    "explain",
    "extract",
    "gate",
    "history",
    "library",
    "list",
    "lock",
    "matrix",
    "occupancy",
    "part",
    "record",
    "report",
    "size",
    "timeline",
    "times",
    "toolchains",
    "tune",
);

/// A schema by its name.
pub fn schema(name: &str) -> Option<&'static str> {
    SCHEMAS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_on_disk_is_built_in() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut files: Vec<String> = std::fs::read_dir(folder).unwrap().map(name).collect();
        files.sort();
        let built: Vec<String> = SCHEMAS.iter().map(|(name, _)| format!("{name}-v1.schema.json")).collect();
        assert_eq!(files, built);
        assert!(schema("report").is_some() && schema("nothing").is_none());
    }
}
