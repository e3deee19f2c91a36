//! What the CPUs are called, by the begin of `/proc/cpuinfo`. x86 and POWER name them; ARM has numbers, of which those of servers
//! and of machines for training are named here.

use std::borrow::Cow;

use crate::fields::{hexadecimal, lines};

/// Implementer and part of MIDR_EL1 with its name, as `lscpu` has them (util-linux, sys-utils/lscpu-arm.c).
const ARM_PARTS: [(u64, u64, &str); 18] = [
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd42, "Cortex-A78AE"),
    (0x41, 0xd49, "Neoverse-N2"),
    // Grace.
    (0x41, 0xd4f, "Neoverse-V2"),
    (0x41, 0xd83, "Neoverse-V3AE"),
    (0x41, 0xd84, "Neoverse-V3"),
    // GB10 has both.
    (0x41, 0xd85, "Cortex-X925"),
    (0x41, 0xd87, "Cortex-A725"),
    (0x41, 0xd8e, "Neoverse-N3"),
    (0x46, 0x001, "Fujitsu A64FX"),
    (0x48, 0xd01, "HiSilicon TaiShan-v110"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1a"),
];

/// The model of the first CPU: the line `model name` of x86, `cpu` of POWER, `CPU implementer` and `CPU part` of ARM.
pub(super) fn of_first(cpuinfo: &[u8]) -> Option<Cow<'_, [u8]>> {
    let value_of = |wanted: &[&[u8]]| {
        lines(cpuinfo).find_map(|line| {
            let (key, value) = line.split_at_checked(line.iter().position(|&byte| byte == b':')?)?;
            wanted.contains(&key.trim_ascii()).then(|| value.get(1..).unwrap_or_default().trim_ascii())
        })
    };
    if let Some(named) = value_of(&[b"model name", b"cpu"]) {
        return Some(Cow::Borrowed(named));
    }
    let number = |key: &[u8]| hexadecimal(value_of(&[key])?.strip_prefix(b"0x")?);
    let (implementer, part) = (number(b"CPU implementer")?, number(b"CPU part")?);
    let known = ARM_PARTS.iter().find(|entry| (entry.0, entry.1) == (implementer, part));
    Some(match known {
        Some((.., name)) => Cow::Borrowed(name.as_bytes()),
        None => Cow::Owned(format!("ARM, implementer {implementer:#x}, part {part:#x}").into_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_cpu_has_a_name() {
        let arm = |implementer, part| {
            format!("processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: {implementer}\nCPU part\t: {part}\n")
        };
        for (cpuinfo, model) in [
            ("processor\t: 0\ncpu family\t: 6\nmodel name\t: AMD EPYC 7763\n".to_owned(), Some("AMD EPYC 7763")),
            ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n".to_owned(), Some("POWER9, altivec supported")),
            (arm("0x41", "0xd4f"), Some("Neoverse-V2")),
            (arm("0x41", "0xfff"), Some("ARM, implementer 0x41, part 0xfff")),
            (arm("0x", "0xd4f"), None),
            (arm("65", "0xd4f"), None),
            ("model name".to_owned(), None),
            ("model name:".to_owned(), Some("")),
            (String::new(), None),
        ] {
            let found = of_first(cpuinfo.as_bytes());
            assert_eq!(found.as_deref(), model.map(str::as_bytes), "{cpuinfo}");
        }
    }
}
