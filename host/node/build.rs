//! Lists the files of the demo catalog for `shipped`, so that a file added there travels with the binary.

use std::fmt::Write as _;
use std::path::Path;

fn main() -> std::io::Result<()> {
    // Asked when it runs: a script that was built in another checkout must not look there.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| std::io::Error::other("CARGO_MANIFEST_DIR is not set"))?;
    let folder = Path::new(&here).join("../../catalogs/demo").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = std::fs::read_dir(&folder)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".json") || name.ends_with(".wasm"))
        .collect();
    names.sort();
    let mut code = String::from("/// The demo catalog, file by file.\nconst DEMO_FILES: &[(&str, &[u8])] = &[\n");
    for name in names {
        let path = folder.join(&name);
        // Writing to a String cannot fail.
        let _ = writeln!(code, "    ({name:?}, include_bytes!({:?})),", path.display().to_string());
    }
    code.push_str("];\n");
    let out = std::env::var_os("OUT_DIR").ok_or_else(|| std::io::Error::other("OUT_DIR is not set"))?;
    std::fs::write(Path::new(&out).join("demo.rs"), code)
}
