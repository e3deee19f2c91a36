//! Arguments in, exit code out; everything else is in the library.

fn main() {
    trainmon::leave::now(trainmon::run())
}
