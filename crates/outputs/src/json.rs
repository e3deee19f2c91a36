//! The verdict as one JSON object: what `diagnose --json` prints. The types in [`trainmon_diagnosis::diagnosis::verdict`] are its schema.

pub use trainmon_base::text::json::pretty;

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_diagnosis::diagnosis::Verdict;

    #[test]
    fn one_object_that_reads_back() {
        let verdict = Verdict { schema: 1, command: "a\u{1b}\"b".to_owned(), ..Verdict::default() };
        let mut bytes = Vec::new();
        pretty(&mut bytes, &verdict).unwrap();
        assert_eq!(serde_json::from_slice::<Verdict>(&bytes).unwrap(), verdict);
        assert!(bytes.iter().all(|&b| b >= 0x20 || b == b'\n'));
    }

    #[test]
    fn unknown_is_null_and_own_cost_is_self() {
        let value = serde_json::to_value(Verdict { confidence: f64::NAN, ..Verdict::default() }).unwrap();
        assert!(value["shares"].is_null() && value["confidence"].is_null());
        assert!(value["self"].is_object());
    }

    #[test]
    fn the_chain_has_the_shape_that_programs_read() {
        let value = serde_json::to_value(crate::testing_views::verdict()).unwrap();
        assert_eq!(value["schema"], 1);
        let node = &value["chain"][1];
        let keys: Vec<&String> = node.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["at", "by", "kind", "lost", "name", "node", "pid", "share", "state", "tid", "waits_for"]);
        assert_eq!(
            (&node["name"], &node["state"], &node["by"]),
            (&"data worker".into(), &"cpu".into(), &"reads".into())
        );
        assert_eq!(value["chain"][0]["waits_for"], serde_json::json!([1, 2, 4]));
        // Readers of older verdicts need not know it.
        assert!(serde_json::to_value(Verdict::default()).unwrap().get("chain").is_none());
    }
}
