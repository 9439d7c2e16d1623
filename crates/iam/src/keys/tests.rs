//! The key file's rules, and that sealed values open only in their place.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use aws_types::AccountId;
use state::Store;

use super::{Keys, KeysError, Place, SealError, SealKey, SecretText};

#[tokio::test]
async fn a_key_is_made_once_and_found_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let keys_dir = dir.path().join("keys");
    let store = Store::memory();
    let keys = Keys::open(&keys_dir, &store).await.expect("a new cloud");
    let file = keys_dir.join("master.key");
    let meta = fs::metadata(&file).expect("the key file");
    assert_eq!((meta.permissions().mode() & 0o777, meta.len()), (0o600, 32));

    let (record, key) = keys.new_account_key(AccountId::FIRST_TENANT).expect("sealed");
    store
        .update(|tx| {
            let record = record.clone();
            async move { tx.insert(&record) }
        })
        .await
        .expect("stored");
    let sealed = key.seal("access-keys", "AKIA", b"secret").expect("sealed");
    drop((keys, key));

    let again = Keys::open(&keys_dir, &store).await.expect("the same cloud");
    let key = again
        .account_key(AccountId::FIRST_TENANT, None)
        .await
        .expect("unwrapped");
    assert_eq!(
        key.open("access-keys", "AKIA", &sealed)
            .expect("opens")
            .as_slice(),
        b"secret"
    );
    assert!(format!("{sealed:?}").find("secret").is_none());
}

#[tokio::test]
async fn page_keys_are_the_same_for_every_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::memory();
    let first = Keys::open(dir.path(), &store)
        .await
        .expect("opens")
        .ring_key("page")
        .await
        .expect("made");
    let second = Keys::open(dir.path(), &store)
        .await
        .expect("opens")
        .ring_key("page")
        .await
        .expect("found");
    assert_eq!(first.bytes(), second.bytes());
}

#[tokio::test]
async fn a_lost_wrong_short_or_wide_key_ends_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::memory();
    drop(Keys::open(dir.path(), &store).await.expect("a new cloud"));
    let file = dir.path().join("master.key");
    let good = fs::read(&file).expect("the key");

    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("chmod");
    assert!(matches!(
        Keys::open(dir.path(), &store).await,
        Err(KeysError::Mode { mode: 0o640, .. })
    ));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("chmod");

    fs::write(&file, [7_u8; 32]).expect("written");
    assert!(matches!(
        Keys::open(dir.path(), &store).await,
        Err(KeysError::Wrong { .. })
    ));
    fs::write(&file, [7_u8; 31]).expect("written");
    assert!(matches!(
        Keys::open(dir.path(), &store).await,
        Err(KeysError::Length { bytes: 31, .. })
    ));
    fs::write(&file, [7_u8; 64]).expect("written");
    assert!(matches!(
        Keys::open(dir.path(), &store).await,
        Err(KeysError::Length { .. })
    ));

    fs::remove_file(&file).expect("removed");
    assert!(matches!(
        Keys::open(dir.path(), &store).await,
        Err(KeysError::Lost { .. })
    ));
    assert!(!file.exists(), "no key is generated for a store that has one");
    fs::write(&file, good).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("chmod");
    Keys::open(dir.path(), &store).await.expect("the right key again");
}

#[test]
fn a_sealed_value_opens_only_in_its_place() {
    let key = SealKey::random();
    let place = Place {
        table: "t",
        id: "a",
        account: AccountId::OPERATOR,
    };
    let sealed = key.seal(1, &place, b"text").expect("sealed");
    assert_eq!(key.open(&sealed, &place).expect("opens").as_slice(), b"text");
    for moved in [
        Place { table: "u", ..place },
        Place { id: "b", ..place },
        Place {
            account: AccountId::FIRST_TENANT,
            ..place
        },
    ] {
        assert_eq!(key.open(&sealed, &moved).err(), Some(SealError::Foreign));
    }
    let mut other_version = sealed.clone();
    other_version.key_version = 2;
    assert_eq!(key.open(&other_version, &place).err(), Some(SealError::Foreign));
    assert_eq!(
        SealKey::random().open(&sealed, &place).err(),
        Some(SealError::Foreign)
    );
}

#[test]
fn secrets_show_nothing() {
    let secret = SecretText::random_access_key();
    assert_eq!(secret.expose().len(), 40);
    assert_eq!(
        format!("{secret:?} {:?}", SealKey::random()),
        "SecretText(..) SealKey(..)"
    );
}
