//! Properties of the tuple codec: it is injective, keeps order, and a prefix of components is one range.

use super::{Component, Key};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

fn component() -> impl Strategy<Value = Component> {
    prop_oneof![
        // Few distinct characters, with the escapes among them, so that shared prefixes are common.
        "[\u{0}\u{1}\u{2}a/\u{ff}é-]{0,5}".prop_map(Component::Text),
        ".{0,8}".prop_map(Component::Text),
        any::<u64>().prop_map(Component::Number),
        (0u64..4).prop_map(Component::Number),
    ]
}

proptest! {
    #[test]
    fn a_key_decodes_to_its_components(tuple in vec(component(), 0..6)) {
        prop_assert_eq!(Key::new(tuple.clone()).components(), Ok(tuple));
    }

    #[test]
    fn keys_order_as_their_tuples(a in vec(component(), 0..5), b in vec(component(), 0..5)) {
        prop_assert_eq!(Key::new(a.clone()).cmp(&Key::new(b.clone())), a.cmp(&b));
    }

    #[test]
    fn children_are_exactly_the_longer_tuples(a in vec(component(), 0..4), b in vec(component(), 0..5)) {
        let below = b.len() > a.len() && b[..a.len()] == a[..];
        prop_assert_eq!(Key::new(a).children().contains(&Key::new(b)), below);
    }

    #[test]
    fn extending_a_tuple_enters_the_range(a in vec(component(), 0..4), more in vec(component(), 1..3)) {
        let longer: Vec<_> = a.iter().cloned().chain(more).collect();
        let (key, longer) = (Key::new(a), Key::new(longer));
        prop_assert!(key.children().contains(&longer));
        prop_assert!(!key.children().contains(&key));
        prop_assert!(longer < key.after_children());
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..40)) {
        let key = Key::from_bytes(bytes.into());
        let _ = key.components();
        let _ = key.to_string();
    }
}

#[test]
fn the_bytes_of_a_record_key_are_fixed() {
    let key = Key::of(&["t", "instances", "-", "i\u{0}1"]);
    assert_eq!(
        key.as_bytes(),
        b"\x02t\x00\x02instances\x00\x02-\x00\x02i\x00\xff1\x00"
    );
    assert_eq!(key.to_string(), "t/instances/-/i\\01");
    assert_eq!(
        Key::new([Component::Number(258)]).as_bytes(),
        b"\x03\0\0\0\0\0\0\x01\x02"
    );
}
