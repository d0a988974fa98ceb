//! Any text as a prompt in both spellings: compiling and rendering end, within their limits, and never panic.
#![no_main]

use catalog::template::{OUTPUT_BYTES_MAX, Spelling, Template, Values};
use job::json::JsonText;
use libfuzzer_sys::fuzz_target;

const ARGS: &str = r#"{"x":"a<b","n":1.10,"list":[1,{"k":null}],"o":{"a":{"b":true}},"args":1}"#;

fuzz_target!(|source: &str| {
    for spelling in [Spelling::Braces, Spelling::Angles] {
        let Ok(template) = Template::compile(source, spelling) else { continue };
        let (args, deps) = (JsonText::trusted(ARGS), JsonText::empty_object());
        if let Ok(rendered) = template.render(&Values::new(), &args, &deps) {
            assert!(rendered.text.len() <= OUTPUT_BYTES_MAX);
        }
    }
});
