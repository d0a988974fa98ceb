//! What templates do, seen from outside: text and JSON in, text out.

use std::fmt::Write as _;

use job::json::JsonText;
use job::variables::Source;
use proptest::prelude::*;

use super::*;

/// The document's own sample, and the shape of most tests: a template, arguments, some variables.
fn render(template: &str, args: &str, vars: &[(&str, &str)]) -> Result<Rendered, RenderError> {
    render_spelt(template, Spelling::Braces, args, vars)
}

fn render_spelt(template: &str, spelling: Spelling, args: &str, vars: &[(&str, &str)]) -> Result<Rendered, RenderError> {
    let template = Template::compile(template, spelling).expect("the template compiles");
    template.render(&values(vars, Source::Config), &json(args), &JsonText::empty_object())
}

fn values(vars: &[(&str, &str)], source: Source) -> Values {
    let value = |text: &str| Value { text: text.into(), source, secret: false };
    vars.iter().map(|(name, text)| ((*name).to_owned(), value(text))).collect()
}

fn json(text: &str) -> JsonText {
    JsonText::check(text.as_bytes()).expect("the arguments are JSON")
}

fn text(template: &str, args: &str, vars: &[(&str, &str)]) -> String {
    render(template, args, vars).expect("it renders").text
}

fn refusal(template: &str, spelling: Spelling) -> TemplateFault {
    Template::compile(template, spelling).expect_err("refused")
}

/// S1-82b, G1-8, G1-9, U13, U18: strings raw, null empty, the rest compact JSON with its digits; nothing escaped.
#[test]
fn arguments_are_printed_as_they_are() {
    let args = r#"{"migration":"a<b && \"c\"='d' `e`","pr":42,"n":null,"t":true,"f":1.10,"e":1e3,
        "big":123456789012345678901234567890,"id":2512292042121000001,"o":{"k":1},"l":[1,{"k":2},"x"],"z":{"b":[1e2],"a":"é"},
        "args":"own","deps":"mine","else_x":7,"if":"iffy","lookup":"up","a b":3}"#;
    let rows = [
        ("Review {{migration}}.", "Review a<b && \"c\"='d' `e`."),
        ("{{{migration}}}{{&pr}}", "a<b && \"c\"='d' `e`42"),
        ("{{pr}} {{n}}|{{t}} {{f}} {{e}} {{big}} {{id}}", "42 |true 1.10 1e3 123456789012345678901234567890 2512292042121000001"),
        ("{{o}} {{l}} {{z}}", r#"{"k":1} [1,{"k":2},"x"] {"b":[1e2],"a":"é"}"#),
        ("{{l.[1].k}}{{l.0}}{{z.b.[0]}}{{l.[1]}}", r#"211e2{"k":2}"#),
        ("{{args.pr}} {{args.args}} {{args.deps}} {{args.else_x}}", "42 own mine 7"),
        ("{{if}}{{lookup}}{{this.pr}}{{[a b]}}{{args.[a b]}}", "iffyup4233"),
        ("{{deps}}", "{}"),
        ("\\{{pr}} \\\\{{pr}} {pr} }} { {{! gone }}{{!-- {{gone}} too --}}.", "{{pr}} \\42 {pr} }} { ."),
    ];
    for (template, expected) in rows {
        assert_eq!(text(template, args, &[]), expected, "{template}");
    }
    assert_eq!(text("  {{pr}}  \n\n {{pr}}\n", args, &[]), "  42  \n\n 42\n");
    assert_eq!(text("x \n {{~pr~}} \n y", args, &[]), "x42y");
}

/// G1-9: `{{args}}` is the whole arguments object, digits and order kept; so is `this` at the root, even beside `args`.
#[test]
fn the_whole_arguments_object_prints_as_it_came() {
    let args = r#"{"z":1e3,"a":{"args":2},"args":3}"#;
    assert_eq!(text("{{args}}", args, &[]), args);
    assert_eq!(text("{{this}} {{args.z}}", args, &[]), format!("{args} 1e3"));
    assert_eq!(
        text("{{#with a}}{{this}}{{args}}{{@root.args.z}}{{../args}}{{/with}}", args, &[]),
        format!("{{\"args\":2}}21e3{args}")
    );
    assert_eq!(text("{{#each this}}{{@key}}={{this}};{{/each}}", args, &[]), "z=1e3;a={\"args\":2};args=3;");
}

/// G1-9: the four blocks, their else, and what they see.
#[test]
fn blocks_choose_and_loop() {
    let args = r#"{"l":[{"n":"a"},{"n":"b"}],"e":[],"o":{"x":1,"y":"z"},"s":"","zero":0,"deep":{"l":[[1,2],[3]]}}"#;
    let rows = [
        ("{{#each l}}{{@index}}{{n}}{{#unless @last}},{{/unless}}{{/each}}", "0a,1b"),
        ("{{#each l as |item i|}}{{i}}{{item.n}}{{../zero}}{{/each}}", "0a01b0"),
        ("{{#each e}}x{{else}}none{{/each}}", "none"),
        ("{{#each o}}{{@key}}={{this}} {{/each}}", "x=1 y=z "),
        ("{{#if s}}a{{else if zero}}b{{else if o}}c{{else}}d{{/if}}", "c"),
        ("{{#if zero includeZero=true}}yes{{/if}}{{#if zero}}no{{/if}}", "yes"),
        ("{{#with o}}{{x}}{{y}}{{../s}}{{/with}}{{#with nothing}}x{{else}}-{{/with}}", "1z-"),
        ("{{#each deep.l}}[{{#each this}}{{this}}{{@../index}}{{/each}}]{{/each}}", "[1020][31]"),
        ("{{#if nothing.at.all}}x{{/if}}{{#unless nothing}}y{{/unless}}", "y"),
        ("{{#each l}}{{this}}{{/each}}", r#"{"n":"a"}{"n":"b"}"#),
        ("a\n{{#if o}}\nb\n{{/if}}\nc", "a\nb\nc"),
    ];
    for (template, expected) in rows {
        assert_eq!(text(template, args, &[]), expected, "{template}");
    }
}

/// G1-8: what is missing prints as nothing and is named once, be it absent or of another kind; conditions may ask freely.
#[test]
fn missing_arguments_are_empty_and_named() {
    let args = r#"{"s":"x","l":[1],"n":null}"#;
    let rows: [(&str, &str, &[&str]); 6] = [
        ("<{{a}}{{a}}{{b.c}}>", "<>", &["a", "b.c"]),
        ("{{s.k}}{{l.k}}{{l.[7]}}{{n}}{{n.x}}", "", &["s.k", "l.k", "l.[7]", "n.x"]),
        ("{{#if a}}{{b}}{{/if}}{{#unless a}}{{#each l}}{{k}}{{/each}}{{/unless}}", "", &["k"]),
        ("{{#each a}}x{{/each}}{{#with b}}x{{/with}}{{#each c}}x{{else}}y{{/each}}", "y", &["a", "b"]),
        ("{{deps.style}}{{args.style}}", "", &["deps.style", "args.style"]),
        ("{{@index}}{{s}}", "x", &["@index"]),
    ];
    for (template, expected, missing) in rows {
        let rendered = render(template, args, &[]).expect("it renders");
        assert_eq!(rendered.text, expected, "{template}");
        assert_eq!(rendered.missing, missing, "{template}");
    }
    let many: String = (0..MISSING_MAX + 5).fold(String::new(), |mut all, i| {
        let _ = write!(all, "{{{{a{i}}}}}");
        all
    });
    assert_eq!(render(&many, "{}", &[]).expect("it renders").missing.len(), MISSING_MAX);
}

/// G1-9 needs: answers of needs stand under `deps`.
#[test]
fn needs_are_injected_under_deps() {
    let template = Template::compile("{{deps.style.verdict}} {{#each deps.list}}{{this}};{{/each}}{{a.deps}}", Spelling::Braces)
        .expect("fine");
    let deps = json(r#"{"style":{"verdict":"ok"},"list":[1.0,{"k":2}]}"#);
    let rendered = template.render(&Values::new(), &json(r#"{"a":{"deps":5}}"#), &deps).expect("it renders");
    assert_eq!(rendered.text, "ok 1.0;{\"k\":2};5");
}

/// S1-81, U16: only the template's own `${HOST}` is filled; what a requester writes appears byte for byte.
#[test]
fn arguments_are_never_scanned() {
    let evil = "${DB_PASS} {{x}} ${HOST} $${HOST} {{#each l}} \\{{x}}";
    let args = serde_json::json!({ "x": evil }).to_string();
    assert_eq!(
        text("Review {{x}} on ${HOST}", &args, &[("HOST", "db1"), ("DB_PASS", "secret")]),
        format!("Review {evil} on db1")
    );
}

/// S1-80, S1-82, G1-4: a value of the configuration or environment that holds a tag is rendered, in the place where it stands.
#[test]
fn template_text_in_a_variable_is_rendered() {
    let vars =
        [("V", "<{{x}}>"), ("W", "plain {x} ${V} $${V}"), ("L", "{{n}}{{../x}}{{this}} ${V}"), ("T", "{{this}}{{args.x}}")];
    let args = r#"{"x":"{{x}}${V}","l":[{"n":1}]}"#;
    assert_eq!(text("${V} ${W}", args, &vars), "<{{x}}${V}> plain {x} ${V} $${V}");
    assert_eq!(text("{{#each l}}${L}{{/each}}", args, &vars), "1{{x}}${V}{\"n\":1} ${V}");
    assert_eq!(text("${T}", args, &vars), format!("{args}{{{{x}}}}${{V}}"));
    assert_eq!(text("${V}", "{}", &vars), "<>");
}

/// G1-4: a value of the secret store is plain text, braces and all; a bad value of the others is named without being shown.
#[test]
fn a_password_with_braces_breaks_nothing() {
    let template = Template::compile("${P}", Spelling::Braces).expect("fine");
    let rendered =
        template.render(&values(&[("P", "{{x}} {{#if")], Source::Store), &json(r#"{"x":1}"#), &JsonText::empty_object());
    assert_eq!(rendered.expect("it renders").text, "{{x}} {{#if");
    let error =
        template.render(&values(&[("P", "hunter2\n {{#if")], Source::Environment), &json("{}"), &JsonText::empty_object());
    let error = error.expect_err("refused");
    assert_eq!(error, RenderError::Value { name: "P".into(), line: 2, column: 2 });
    assert!(!error.to_string().contains("hunter2"));
}

/// G1-5: no value, no prompt, in whichever branch; the escape is text.
#[test]
fn an_unresolved_variable_stops_the_job() {
    assert_eq!(render("{{#if x}}${NOPE}{{/if}}", "{}", &[]), Err(RenderError::Unresolved { name: "NOPE".into() }));
    assert_eq!(text("$${NOPE} $${} $${a b} $$", "{}", &[]), "${NOPE} ${} ${a b} $$");
    assert_eq!(
        Template::compile("${B} ${A}{{#if x}}${B}{{else}}${C}{{/if}}{{! ${D} }}", Spelling::Braces).expect("fine").variables(),
        ["B", "A", "C"]
    );
}

/// G1-40: the second spelling has the same rules, and braces are plain text in it.
#[test]
fn angles_are_the_second_spelling() {
    let vars = [("T", "team"), ("V", "[<<x>>{{x}}]"), ("W", "{{x}}")];
    let args = r#"{"x":"<<x>> $<T>","l":[1,2],"o":{"k":[1]}}"#;
    let rows = [
        ("{\"a\": {{x}}, \"b\": <<o>>} $<T> ${T}", r#"{"a": {{x}}, "b": {"k":[1]}} team ${T}"#),
        ("<<#each l>><<this>>,<</each>>", "1,2,"),
        ("\\<<x>> \\\\<<l>> $$<T> a < b > c << x >>", "<<x>> \\[1,2] $<T> a < b > c <<x>> $<T>"),
        ("$<V>$<W>", "[<<x>> $<T>{{x}}]{{x}}"),
        ("<<! a {{ comment >>b<<!-- << c >> -->>{{{#if}}", "b{{{#if}}"),
    ];
    for (template, expected) in rows {
        assert_eq!(render_spelt(template, Spelling::Angles, args, &vars).expect("it renders").text, expected, "{template}");
    }
    let fault = refusal("ab\nc <<#if>>", Spelling::Angles);
    assert_eq!((fault.line, fault.column), (2, 3));
    assert!(fault.mend.contains("<<#if path>>"), "{fault}");
}

/// U19, G1-9: hostile templates are refused before they reach the engine, with a place and a way out.
#[test]
fn hostile_templates_are_refused_with_their_place() {
    let deep = |n: usize| format!("{}x{}", "{{#if a}}".repeat(n), "{{/if}}".repeat(n));
    let chain = format!("{{{{#if a}}}}{}{{{{/if}}}}", "{{else if b}}".repeat(5000));
    let rows: Vec<(String, usize, usize, &str)> = vec![
        (r#"{{#*inline "a"}}x{{> b}}{{/inline}}{{#*inline "b"}}y{{> a}}{{/inline}}{{> a}}"#.into(), 1, 1, "decorators"),
        ("{{#*inline a}}x{{/inline}}".into(), 1, 1, "decorators"),
        ("x\n {{> self}}".into(), 2, 2, "partials"),
        ("{{#> self}}{{/self}}".into(), 1, 1, "partials"),
        ("{{* deco}}".into(), 1, 1, "decorators"),
        ("{{{{raw}}}}x{{{{/raw}}}}".into(), 1, 1, "raw blocks"),
        ("{{log x}}".into(), 1, 1, "no helper log"),
        ("é{{lookup x y}}".into(), 1, 2, "no helper lookup"),
        ("{{#if (eq a b)}}{{/if}}".into(), 1, 1, "cannot be read"),
        ("{{#iff a}}{{/iff}}".into(), 1, 1, "did you mean #if"),
        ("{{#each}}{{/each}}".into(), 1, 1, "needs an argument's path"),
        ("{{#if true}}{{/if}}".into(), 1, 1, "no literal"),
        ("{{#if a b}}{{/if}}".into(), 1, 1, "more than it takes"),
        ("{{#if else}}{{/if}}".into(), 1, 1, "cannot take the word else"),
        ("{{#each a as b}}{{/each}}".into(), 1, 1, "more than it takes"),
        ("a {{b".into(), 1, 3, "never closed"),
        ("\n{{#if a}}\n{{#each b}}{{/each}}".into(), 2, 1, "#if is never closed"),
        ("{{#if a}}\n {{/each}}".into(), 2, 2, "closes #if, opened on line 1"),
        ("{{/if}}".into(), 1, 1, "closes no block"),
        ("{{else}}".into(), 1, 1, "outside of every block"),
        ("{{#if a}}{{else}}{{else}}{{/if}}".into(), 1, 18, "an else already"),
        ("{{#if a}}{{else}}{{else if b}}{{/if}}".into(), 1, 18, "an else already"),
        ("{{}}".into(), 1, 1, "empty"),
        ("{{.}}".into(), 1, 1, "cannot be read"),
        ("{{a..b}}".into(), 1, 1, "cannot be read"),
        ("{{a b}}".into(), 1, 1, "no helper a"),
        ("{{elsewhere}}".into(), 1, 1, "begins with else"),
        ("{{ ${X} }}".into(), 1, 1, "variable cannot stand inside"),
        ("{{[a}}b]}}".into(), 1, 1, "cannot be read"),
        ("{{x \"}}\"}}".into(), 1, 1, "quote"),
        ("{{{a}} b".into(), 1, 1, "three braces"),
        ("{\"a\":{{\"b\":1}}}".into(), 1, 6, "quote"),
        ("{{@foo}}".into(), 1, 1, "cannot be read"),
        ("a ${".into(), 1, 3, "opens a variable and no name follows"),
        ("{{a}}\n ${1BAD}".into(), 2, 2, "opens a variable and no name follows"),
        ("${A\\{{b}}".into(), 1, 1, "opens a variable and no name follows"),
        (deep(33), 1, 1 + 32 * 9, "deeper than 32"),
        (deep(2000), 1, 1 + 32 * 9, "deeper than 32"),
        (chain, 1, 1 + 9 + 31 * 13, "deeper than 32"),
        (format!("{{{{#if {}a{}}}}}", "(".repeat(30_000), ")".repeat(30_000)), 1, 1, "cannot be read"),
        (format!("{{{{a {}}}}}", "[".repeat(60_000)), 1, 1, "cannot be read"),
        ("{{a}}".repeat(TAGS_MAX + 1), 1, 1 + TAGS_MAX * 5, "tags"),
        ("x".repeat(SOURCE_BYTES_MAX + 1), 1, 1, "65537 bytes"),
    ];
    for (template, line, column, words) in rows {
        let fault = refusal(&template, Spelling::Braces);
        let head: String = template.chars().take(60).collect();
        assert!(fault.what.contains(words), "{head}: {fault}");
        assert_eq!((fault.line, fault.column), (line, column), "{head}: {fault}");
        assert!(!fault.mend.is_empty() && fault.what.len() < 200, "{head}: {fault}");
    }
    assert!(Template::compile(&deep(32), Spelling::Braces).is_ok());
    assert_eq!(text(&deep(32), r#"{"a":1}"#, &[]), "x");
}

/// Tricks that would show the scan other tags than the engine sees: whatever is let through nests no deeper than the scan counted.
#[test]
fn nothing_hides_a_closing_tag_from_the_engine() {
    let tricks = [
        "{{#if a}}{{! -- }}{{/if}}--}}",
        "{{#if a}}{{!-- }}{{/if}}",
        "{{#if a}}\\{{/if}}",
        "{{#if a}}\\\\\\{{/if}}",
        "{{#if [a}}{{/if}}]}}",
        "{{#if a}}{{!\n--}}{{/if}}--}}",
    ];
    for trick in tricks {
        for spelling in [Spelling::Braces, Spelling::Angles] {
            let angles = trick.replace("{{", "<<").replace("}}", ">>");
            for trick in [trick, angles.as_str()] {
                // Two thousand levels overflow the engine's stack; being here afterwards is the assertion.
                let _ = Template::compile(&trick.repeat(2000), spelling);
            }
        }
    }
}

/// G1-9: a prompt has an end, and so has a loop that prints nothing.
#[test]
fn rendering_has_limits() {
    let list = format!("{{\"a\":[{}1]}}", "1,".repeat(1999));
    let start = std::time::Instant::now();
    assert_eq!(
        render("{{#each a}}{{#each ../a}}{{this}}0123456789{{/each}}{{/each}}", &list, &[]),
        Err(RenderError::TooLong { limit_bytes: OUTPUT_BYTES_MAX })
    );
    let idle = "{{#each a}}{{#each ../a}}{{#each ../../a}}{{/each}}{{/each}}{{/each}}";
    assert_eq!(render(idle, &list, &[]), Err(RenderError::TooManySteps { limit: STEPS_MAX }));
    assert!(start.elapsed().as_secs() < 60, "both ended");
    let big = serde_json::json!({ "o": { "k": "x".repeat(OUTPUT_BYTES_MAX) } }).to_string();
    assert_eq!(render("{{o}}", &big, &[]), Err(RenderError::TooLong { limit_bytes: OUTPUT_BYTES_MAX }));
}

/// G1-4: values are compiled once while they stay the same, and the cache has an end.
#[test]
fn values_are_cached_and_the_cache_is_bounded() {
    let template = Template::compile("${V}", Spelling::Braces).expect("fine");
    for round in 0..100 {
        let value = format!("{round} {{{{x}}}}");
        let rendered = template.render(&values(&[("V", &value)], Source::Config), &json(r#"{"x":1}"#), &JsonText::empty_object());
        assert_eq!(rendered.expect("it renders").text, format!("{round} 1"));
    }
    assert!(template.values_kept() <= 9, "{}", template.values_kept());
}

/// One piece of a template with what it renders to, for arguments {"a":"<A>","n":1.50} and V=v.
fn piece() -> impl Strategy<Value = (String, String)> {
    let fixed = |template: &str, expected: &str| Just((template.to_owned(), expected.to_owned())).boxed();
    prop_oneof![
        "[ a-z.<>&\"'`\n\t$}é-]{1,8}".prop_map(|text| (text.clone(), text)),
        fixed("{{a}}", "<A>"),
        fixed("{{ n }}", "1.50"),
        fixed("{{gone}}", ""),
        fixed("${V}", "v"),
        fixed("$${V}", "${V}"),
        fixed("\\{{a}}", "{{a}}"),
        fixed("{{!c}}", ""),
        fixed("{{#if a}}x {{n}}{{else}}y{{/if}}", "x 1.50"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Text between tags comes out to the byte, wherever the tags stand. (A block alone on its line takes the line with it, so
    /// the pieces are kept on lines with something else.)
    #[test]
    fn text_around_tags_is_kept(pieces in proptest::collection::vec(piece(), 0..12)) {
        // A `$` at the end of a text joins with what follows it; a joint that is one is not what this test is about.
        let joined = |which: fn(&(String, String)) -> &String| pieces.iter().map(which).fold(String::from("|"), |all, next| all + next + "|");
        let (template, expected) = (joined(|p| &p.0), joined(|p| &p.1));
        let rendered = render(&template, r#"{"a":"<A>","n":1.50}"#, &[("V", "v")]);
        prop_assert_eq!(rendered.expect("it renders").text, expected);
    }

    /// No text, however odd, does harm: it compiles or is refused in our words, before the engine's own second look finds
    /// anything, and what compiles renders or says why not.
    #[test]
    fn any_text_is_safe(text in "([{}#/ >*!~^&a\\\\$\\[\\].@|\"'()-]|\\{\\{|\\}\\}|#if a|/if|else|each|\n){0,60}", angles in any::<bool>()) {
        let spelling = if angles { Spelling::Angles } else { Spelling::Braces };
        let text = if angles { text.replace("{{", "<<").replace("}}", ">>") } else { text };
        let compiled = Template::compile(&text, spelling);
        if let Err(fault) = &compiled {
            prop_assert!(!fault.mend.starts_with("use paths"), "{fault}");
        }
        if let Ok(template) = compiled {
            let names: Vec<(&str, &str)> = template.variables().iter().map(|name| (name.as_str(), "v")).collect();
            let _ = template.render(&values(&names, Source::Config), &json(r#"{"a":[1,{"a":2}]}"#), &JsonText::empty_object());
        }
    }
}
