//! Enums whose variants have fixed names: each name in the JSON, the CSV and on the screen is written once, beside its
//! variant.

/// Declares such an enum, with `ALL` in declaration order, indices for arrays and `word()`; serde uses the same names.
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $Enum:ident { $($(#[$of_variant:meta])* $Variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $vis enum $Enum {
            $($(#[$of_variant])* #[serde(rename = $name)] $Variant,)+
        }

        #[allow(dead_code, reason = "not every enum is counted, or looked up by its word")]
        impl $Enum {
            /// All of them, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Index in [`Self::ALL`], and in arrays ordered like it.
            pub fn index(self) -> usize {
                self as usize
            }

            /// The exact word in the JSON, the CSV and on the screen.
            pub fn word(self) -> &'static str {
                match self { $(Self::$Variant => $name),+ }
            }

            /// The variant with this word; `None` if this version does not know the word.
            pub fn named(word: &str) -> Option<Self> {
                match word { $($name => Some(Self::$Variant),)+ _ => None }
            }
        }
    };
}
