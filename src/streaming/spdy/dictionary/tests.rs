//! Tests that the dictionary has the checksum by which zlib identifies it.

use flate2::{Compress, Compression};

use super::{SIZE, bytes};

#[test]
fn zlib_knows_it_by_its_name() {
    assert_eq!(bytes().len(), SIZE);
    let named = Compress::new(Compression::fast(), true).set_dictionary(&bytes()).unwrap();
    assert_eq!(named, 0xe3c6_a7c2);
}
