fn main() {
    // TODO: say hello
    println!("hi");
}
