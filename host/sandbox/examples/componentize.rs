//! Turns a core module with an embedded component type into a component: `componentize in.wasm out.wasm`.
//!
//! Owns nothing but the two paths; `guests/build` calls it.

use std::error::Error;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = env::args().skip(1).collect();
    let [from, to] = paths.as_slice() else {
        return Err("usage: componentize IN.wasm OUT.wasm".into());
    };
    let module = fs::read(from).map_err(|error| format!("{from}: {error}"))?;
    let component = sandbox::to_component(&module).map_err(|error| format!("{from}: {error}"))?;
    fs::write(to, component).map_err(|error| format!("{to}: {error}"))?;
    Ok(())
}
