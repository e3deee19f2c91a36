//! What Prometheus answers to an instant query (<https://prometheus.io/docs/prometheus/latest/querying/api/>): read with bounds, and
//! nothing taken on trust.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use trainmon_base::errors::shorten;
use trainmon_base::text::sanitize;

/// Most series of one answer: twenty for each of ten thousand GPUs.
pub const MOST_ANSWERED: usize = 200_000;
/// Longest label, and longest word of Prometheus' own, characters.
const LONGEST: usize = 128;
/// Most warnings that are passed on.
const MOST_WARNINGS: usize = 3;

/// Why an answer says nothing.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// It is something else.
    #[error("the answer is not that of Prometheus ({0})")]
    Other(String),
    /// Prometheus cannot answer.
    #[error("Prometheus says: {0}")]
    Refused(String),
}

/// A series with its newest value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answered {
    /// Its labels.
    pub labels: SeriesLabels,
    /// The moment of the query by Prometheus' clock, seconds since 1970.
    pub at_unix_s: f64,
    /// Its value, a finite number.
    pub value: f64,
}

/// The labels that matter; printable and short. The others are dropped while reading.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as on the wire")]
pub struct SeriesLabels {
    pub cluster: Label,
    pub job: Label,
    pub instance: Label,
    pub node: Label,
    pub pid: Label,
    pub training_job: Label,
    pub slurm_job_id: Label,
    pub rank: Label,
    pub gpu: Label,
    #[serde(rename = "UUID")]
    pub uuid: Label,
    pub class: Label,
    pub cause: Label,
}

/// The value of a label; empty without it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub String);

impl Label {
    /// Its text, if there is any.
    pub fn text(&self) -> Option<String> {
        Some(self.0.clone()).filter(|text| !text.is_empty())
    }

    /// It as a number.
    pub fn number(&self) -> Option<u32> {
        self.0.parse().ok()
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let shown = match sanitize(&text) {
            // Most labels.
            Cow::Borrowed(_) if text.len() <= LONGEST => None,
            shown => Some(shown.chars().take(LONGEST).collect()),
        };
        Ok(Self(shown.unwrap_or(text)))
    }
}

#[derive(Deserialize)]
struct Written {
    status: String,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    warnings: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    kind: String,
    result: SeriesList,
}

struct SeriesList(Vec<Answered>);

#[derive(Deserialize)]
struct OneSeries {
    metric: SeriesLabels,
    value: (f64, String),
}

impl<'de> Deserialize<'de> for SeriesList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;
        impl<'de> Visitor<'de> for Bounded {
            type Value = SeriesList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of series")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<SeriesList, A::Error> {
                let mut all = Vec::new();
                while let Some(OneSeries { metric, value: (at_unix_s, value) }) = items.next_element()? {
                    if all.len() >= MOST_ANSWERED {
                        return Err(serde::de::Error::custom("more than 200,000 series"));
                    }
                    // NaN and infinity are no measurements.
                    if let Some(value) = value.parse().ok().filter(|value: &f64| value.is_finite()) {
                        all.push(Answered { labels: metric, at_unix_s, value });
                    }
                }
                Ok(SeriesList(all))
            }

            // A scalar is a number and a text, other kinds something else.
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<SeriesList, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(SeriesList(Vec::new()))
            }
        }
        deserializer.deserialize_any(Bounded)
    }
}

/// The series of an answer, and its warnings.
///
/// # Errors
/// [`AnswerError`].
pub fn read(body: &[u8]) -> Result<(Vec<Answered>, Vec<String>), AnswerError> {
    let shown = |text: &str| shorten(&sanitize(text), LONGEST);
    let written: Written =
        serde_json::from_slice(body).map_err(|error| AnswerError::Other(shown(&error.to_string())))?;
    match written {
        Written { status, data: Some(Data { kind, result }), warnings, .. }
            if status == "success" && kind == "vector" =>
        {
            let warnings = warnings.unwrap_or_default();
            Ok((result.0, warnings.iter().take(MOST_WARNINGS).map(|text| shown(text)).collect()))
        }
        Written { status, error: Some(why), .. } if status == "error" => Err(AnswerError::Refused(shown(&why))),
        _ => Err(AnswerError::Other("no vector in it".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector(series: &str) -> String {
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#)
    }

    #[test]
    fn series_with_their_labels_and_values() {
        let text = vector(
            r#"{"metric":{"rank":"7","UUID":"GPU-1","more":"x"},"value":[1.5,"0.25"]},{"metric":{},"value":[2,"NaN"]},{"metric":{},"value":[2,"+Inf"]}"#,
        );
        let (series, warnings) = read(text.as_bytes()).unwrap();
        let [one] = series.as_slice() else { panic!("{series:?}") };
        assert_eq!((one.labels.rank.number(), one.labels.uuid.0.as_str()), (Some(7), "GPU-1"));
        assert_eq!((one.at_unix_s, one.value, warnings.len()), (1.5, 0.25, 0));
    }

    #[test]
    fn labels_steer_no_terminal() {
        let text = vector(r#"{"metric":{"instance":"a\u001b[2Jb\nc","job":"LONG"},"value":[1,"1"]}"#);
        let (series, _) = read(text.replace("LONG", &"x".repeat(5000)).as_bytes()).unwrap();
        assert!(series[0].labels.instance.0.chars().all(|c| !c.is_control()), "{series:?}");
        assert_eq!(series[0].labels.job.0.len(), LONGEST);
    }

    #[test]
    fn what_is_no_answer_is_one_short_line() {
        let bad = [
            ("", "EOF"),
            ("<html>", "not that of Prometheus"),
            ("[]", "not that of Prometheus"),
            ("{}", "status"),
            (r#"{"status":"success"}"#, "no vector"),
            (r#"{"status":"success","data":{"resultType":"vector","result":{"a":1}}}"#, ""),
            (r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#, "invalid type"),
            (r#"{"status":"success","data":{"resultType":"vector","result":7}}"#, "a list of series"),
            (
                r#"{"status":"error","errorType":"timeout","error":"query timed out\nin"}"#,
                "Prometheus says: query timed out",
            ),
        ];
        for (text, part) in bad {
            match read(text.as_bytes()) {
                Ok((series, _)) => assert!(part.is_empty() && series.is_empty(), "{text}"),
                Err(error) => {
                    let line = error.to_string();
                    assert!(line.contains(part) && line.lines().count() == 1 && line.len() < 300, "{text}: {line}");
                }
            }
        }
        for series in [
            r#"{"metric":{"rank":7},"value":[1,"1"]}"#,
            r#"{"metric":{},"value":[1,2]}"#,
            r#"{"metric":{},"value":["1","1"]}"#,
            r#"{"metric":{},"values":[]}"#,
            r#"{"metric":{"rank":"1","rank":"2"},"value":[1,"1"]}"#,
        ] {
            assert!(matches!(read(vector(series).as_bytes()), Err(AnswerError::Other(_))), "{series}");
        }
        assert!(read("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn too_many_series_are_refused() {
        let one = r#"{"metric":{},"value":[1,"1"]}"#;
        let many = vec![one; MOST_ANSWERED + 1].join(",");
        let why = read(vector(&many).as_bytes()).unwrap_err().to_string();
        assert!(why.contains("200,000"), "{why}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
        }

        #[test]
        fn arbitrary_labels_and_values(name in "[a-zA-Z_]{1,12}", label in "\\PC*", value in "\\PC*", at: f64) {
            let metric = serde_json::json!({ name: label, "instance": label });
            let series = serde_json::json!({ "metric": metric, "value": [at, value] }).to_string();
            if let Ok((series, _)) = read(vector(&series).as_bytes()) {
                prop_assert!(series.iter().all(|one| one.value.is_finite() && one.labels.instance.0.chars().count() <= LONGEST));
            }
        }
    }
}
