//! GPUs as a person names them.

use std::fmt;
use std::str::FromStr;

/// A GPU that a person named.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(untagged, try_from = "WrittenChoice")]
pub enum GpuChoice {
    /// Index, as trainmon shows it.
    Index(u32),
    /// UUID, or the start of one.
    Uuid(String),
}

/// A choice in a configuration file: with or without quotes.
#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "expected a string or a number")]
enum WrittenChoice {
    Number(i64),
    Text(String),
}

impl TryFrom<WrittenChoice> for GpuChoice {
    type Error = String;

    fn try_from(written: WrittenChoice) -> Result<Self, String> {
        match written {
            WrittenChoice::Number(number) => number.to_string().parse(),
            WrittenChoice::Text(text) => text.parse(),
        }
    }
}

impl FromStr for GpuChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(index) = text.parse().ok().filter(|index| *index < 1024) {
            return Ok(Self::Index(index));
        }
        let kind = text.get(..4).unwrap_or_default();
        let named = ["GPU-", "MIG-"].iter().any(|known| known.eq_ignore_ascii_case(kind));
        if named && (5..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
            return Ok(Self::Uuid(text.to_owned()));
        }
        Err("name a GPU by its index (0) or its UUID (GPU-…); nvidia-smi -L lists both".to_owned())
    }
}

impl fmt::Display for GpuChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => index.fmt(f),
            Self::Uuid(uuid) => uuid.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn devices_by_index_or_uuid() {
        assert_eq!("3".parse(), Ok(GpuChoice::Index(3)));
        assert_eq!("GPU-1f2e".parse(), Ok(GpuChoice::Uuid("GPU-1f2e".to_owned())));
        for bad in ["", "-1", "cuda:0", "GPU-", "GPU-a b", "gpuµ", "1024"] {
            assert!(bad.parse::<GpuChoice>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_names_them_with_or_without_quotes() {
        let read = |text| serde_json::from_str::<Vec<GpuChoice>>(text);
        assert_eq!(read(r#"[1, "2"]"#).unwrap(), [GpuChoice::Index(1), GpuChoice::Index(2)]);
        assert_eq!(serde_json::to_string(&read(r#"[1, "GPU-a"]"#).unwrap()).unwrap(), r#"[1,"GPU-a"]"#);
        for bad in ["[-1]", "[1024]", "[1.5]", "[true]", r#"["cuda:0"]"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_choice_or_refused(text in "\\PC*") {
            if let Ok(choice) = text.parse::<GpuChoice>() {
                prop_assert_eq!(choice.to_string().parse(), Ok(choice));
            }
        }
    }
}
