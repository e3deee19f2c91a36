//! Enums whose variants have fixed names: those of the JSON, the CSV and the screen stand once, beside the variants.

/// Declares such an enum, with `ALL` in the order of the lines and `word()`; serde uses the same names.
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $Enum:ident { $($(#[$of_variant:meta])* $Variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $vis enum $Enum {
            $($(#[$of_variant])* #[serde(rename = $name)] $Variant,)+
        }

        impl $Enum {
            /// All of them, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

            /// The exact word of the JSON, the CSV and the screen.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$Variant => $name),+ }
            }
        }
    };
}

pub(crate) use named_enum;
