//! "Did you mean": the known word nearest to a misspelt one.
//!
//! Owns the distance that still counts as near. It must not know what the words are for.

/// The known word nearest to `word`, if one is near enough to be what was meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(word);
    let close = |candidate: &'a str| {
        let distance = strsim::osa_distance(&folded, &fold(candidate));
        let longest = folded.chars().count().max(candidate.len());
        (distance * 3 <= longest + 1).then_some((distance, candidate))
    };
    // The first of several equally near words wins, so that the answer is the same every time.
    known.into_iter().filter_map(close).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Letters only, lower case: `max-packet_MB` and `maxPacketMb` are one word to a person.
fn fold(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_a_stranger_finds_none() {
        let known = ["service", "description", "requestSchema", "prompt", "executor"];
        let rows = [
            ("promt", Some("prompt")),
            ("request_schema", Some("requestSchema")),
            ("Service", Some("service")),
            ("descripton", Some("description")),
            ("banana", None),
            ("", None),
        ];
        for (word, expected) in rows {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
