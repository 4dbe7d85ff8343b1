//! Random ids for calls, sessions and approvals.

/// Returns 80 random bits as 16 letters and digits without lookalikes.
pub fn random() -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system provides random numbers");
    bytes
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte & 31)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_alphanumeric() {
        let (one, two) = (random(), random());
        assert_ne!(one, two);
        assert!(one.len() == 16 && one.chars().all(|c| c.is_ascii_alphanumeric()));
    }
}
