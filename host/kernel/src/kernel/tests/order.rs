//! R-172 to R-174: which calls run concurrently, and which wait for each other.

use expect_test::expect;

use super::{Settings, house, slots};

#[tokio::test(start_paused = true)]
async fn parallel_calls_share_the_slots_in_the_order_they_came() {
    let house = house(slots(2), []);
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
    let house = house(slots(3), []);
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
    let house = house(Settings::default(), []);
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
async fn a_tool_that_asks_is_alone_where_there_is_one_person() {
    let house = house(Settings::default(), []);
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
async fn where_many_can_be_asked_nobody_waits_for_the_answer_of_another() {
    let mut settings = Settings::default();
    settings.pools.interactive = 2;
    let house = house(settings, []);
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
