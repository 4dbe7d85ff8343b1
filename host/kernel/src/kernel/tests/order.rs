//! R-172 to R-174: which calls run concurrently, and which wait for each other.

use expect_test::expect;

use super::{KernelSettings, slots, test_kernel};

#[tokio::test(start_paused = true)]
async fn parallel_calls_get_slots_in_order_of_arrival() {
    let house = test_kernel(slots(2), []);
    house
        .check_order(
            "a look 3\nb look 1\nc look 1\nd look 1",
            expect![[r#"
            0s a starts
            0s b starts
            1s b ends
            1s c starts
            2s c ends
            2s d starts
            3s a ends
            3s d ends
            a 3s, b 1s, c 1s, d 1s"#]],
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn serial_tools_of_one_plugin_take_turns_and_others_do_not_wait() {
    let house = test_kernel(slots(3), []);
    house
        .check_order(
            "a step 2\nb step 2\nc walk 1\nd look 1",
            expect![[r#"
            0s a starts
            0s c starts
            0s d starts
            1s c ends
            1s d ends
            2s a ends
            2s b starts
            4s b ends
            a 2s, b 2s, c 1s, d 1s"#]],
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_call_runs_alone_and_is_not_overtaken() {
    let house = test_kernel(KernelSettings::default(), []);
    house
        .check_order(
            "a look 2\nb alone 1\nc look 1\nd step 1",
            expect![[r#"
            0s a starts
            2s a ends
            2s b starts
            3s b ends
            3s c starts
            3s d starts
            4s c ends
            4s d ends
            a 2s, b 1s, c 1s, d 1s"#]],
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_interactive_tool_runs_alone_with_one_interactive_slot() {
    let house = test_kernel(KernelSettings::default(), []);
    house
        .check_order(
            "a question 2\nb question 1\nc look 1",
            expect![[r#"
            0s a starts
            2s a ends
            2s b starts
            3s b ends
            3s c starts
            4s c ends
            a 2s, b 1s, c 1s"#]],
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn with_several_interactive_slots_questions_do_not_block_each_other() {
    let mut settings = KernelSettings::default();
    settings.pools.interactive = 2;
    let house = test_kernel(settings, []);
    house
        .check_order(
            "a question 2\nb question 1\nc look 1",
            expect![[r#"
            0s a starts
            0s b starts
            0s c starts
            1s b ends
            1s c ends
            2s a ends
            a 2s, b 1s, c 1s"#]],
        )
        .await;
}
