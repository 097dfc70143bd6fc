//! For any lists of records in any order, the cached items equal newly encoded items.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use proptest::prelude::*;
use prost::bytes::Bytes;

use super::Items;

#[derive(Debug)]
struct Record {
    number: usize,
    rendered: AtomicUsize,
}

impl Record {
    fn new(number: usize) -> Arc<Self> {
        Arc::new(Self { number, rendered: AtomicUsize::new(0) })
    }
}

fn render(record: &Record) -> Bytes {
    record.rendered.fetch_add(1, Ordering::Relaxed);
    record.number.to_string().into()
}

/// Random lists of records, which are numbers here, without duplicates.
fn tables() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let table = prop::collection::hash_set(0..12_usize, 0..12);
    prop::collection::vec(table.prop_map(|table| table.into_iter().collect()), 1..20)
}

proptest! {
    #[test]
    fn every_table_is_complete(tables in tables()) {
        let all: Vec<_> = (0..12).map(Record::new).collect();
        let items = Items::default();
        for table in tables {
            let records: Vec<_> = table.iter().map(|number| Arc::clone(&all[*number])).collect();
            let to_message = items.of(&records, render);
            let expected: Vec<Bytes> =
                table.iter().map(|number| number.to_string().into()).collect();
            let messages: Vec<Bytes> = to_message.iter().map(|item| item.message.clone()).collect();
            prop_assert_eq!(messages, expected);
        }
    }
}

#[test]
fn only_what_is_new_is_rendered() {
    let (one, two, three) = (Record::new(1), Record::new(2), Record::new(3));
    let items = Items::default();
    let first = items.of(&[Arc::clone(&one), Arc::clone(&two)], render);
    let second = items.of(&[Arc::clone(&one), Arc::clone(&two)], render);
    assert!(Arc::ptr_eq(&first, &second));
    drop((first, second));
    assert_eq!(Arc::strong_count(&one), 2, "else another record may have its address");
    items.of(&[Arc::clone(&three), Arc::clone(&two)], render);
    let times = |record: &Record| record.rendered.load(Ordering::Relaxed);
    assert_eq!([times(&one), times(&two), times(&three)], [1, 1, 1]);
    // The cache drops records that were not in the last list.
    items.of(std::slice::from_ref(&one), render);
    assert_eq!((times(&one), Arc::strong_count(&three)), (2, 1));
}
