//! A broker that is set up without what an agent needs: the board says what the operator does there.

use super::broker::Mosquitto;
use super::house::{House, profile};
use kit::MemoryJournal;

/// Each with the line of Mosquitto's configuration that mends it.
#[tokio::test]
async fn the_board_says_what_to_change_at_the_broker() {
    let rows = [
        ("retain_available false\n", "broker.dba", "retained", "retain_available true"),
        ("max_qos 0\n", "broker.dba", "QoS 1", "max_qos 1"),
        ("max_packet_size 300\n", "broker.dba.publish", "takes packets of 300", "max_packet_size"),
    ];
    for (line, name, what, mend) in rows {
        let Some(broker) = Mosquitto::start(line).await else { return };
        let house = House::begin(&broker.address(), MemoryJournal::default(), None);
        // Larger than the last of them takes.
        house.mesh.advertise(profile(&"x".repeat(500)));
        let condition = house.condition(name, |condition| condition.what.contains(what)).await;
        assert!(condition.mend.contains(mend), "{line}{}: {}", condition.what, condition.mend);
    }
}
