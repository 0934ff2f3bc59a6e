//! Captured trees of `/proc` and `/sys` under fixtures/stacks, each with the path asked about and the answer expected.

use std::fs;
use std::path::{Path, PathBuf};

use fsynclab::results::{Note, Stack};
use fsynclab::storage::{self, Root};

fn trees() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/stacks");
    let entries = fs::read_dir(top).expect("fixtures/stacks");
    let mut trees: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    trees.retain(|path| path.is_dir());
    trees.sort();
    trees
}

fn answer(tree: &Path) -> String {
    let path = fs::read_to_string(tree.join("path")).expect("the path asked about");
    let root = Root::captured(tree);
    let stack = storage::stack(Path::new(path.trim()), &root).expect("a stack");
    let codes: Vec<String> =
        storage::notes(&stack).iter().map(|Note { code, .. }| code.to_string()).collect();
    let again: Stack =
        serde_json::from_value(serde_json::to_value(&stack).expect("to JSON")).expect("from JSON");
    assert_eq!(again, stack, "a stack survives its text form");
    let answer = serde_json::json!({ "weakest": storage::weakest(&stack), "notes": codes, "stack": stack });
    serde_json::to_string_pretty(&answer).expect("to JSON") + "\n"
}

#[test]
fn captured_trees_give_the_stack_written_beside_them() {
    let trees = trees();
    assert!(trees.len() >= 16, "only {} trees", trees.len());
    for tree in trees {
        let file = tree.join("expected.json");
        let found = answer(&tree);
        if std::env::var_os("FSYNCLAB_ACCEPT").is_some() {
            fs::write(&file, &found).expect("write the expected answer");
        }
        let expected = fs::read_to_string(&file).expect("expected.json");
        assert_eq!(found, expected, "{} (FSYNCLAB_ACCEPT=1 takes the new answer)", tree.display());
    }
}
