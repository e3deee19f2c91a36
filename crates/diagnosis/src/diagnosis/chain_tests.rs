use super::*;
use trainmon_waits::chain::paths::WaitHop;

#[test]
fn what_is_too_small_is_put_together() {
    let process = |pid: u32, share: f64| ChainPath {
        hops: vec![WaitHop { by: Edge::Reads, pid, tid: pid }],
        end: End::Cpu,
        name: None,
        lock: None,
        share,
        lost: share / 2.0,
        part: Purpose::Process,
    };
    let many = (0..60_u32).map(|at| process(100 + at, 0.005)).chain([process(99, 0.4)]);
    let window = Features { chain: Some(Chain { ways: many.collect(), ..Chain::default() }), ..Features::default() };
    let nodes = nodes(&window);
    let shown: Vec<_> = nodes.iter().map(|node| (node.node, node.share, node.lost, node.waits_for.clone())).collect();
    assert_eq!(shown, [(0, 0.7, 0.35, vec![1, 2]), (1, 0.4, 0.2, vec![]), (2, 0.3, 0.15, vec![])]);
    assert_eq!(waits_for(&nodes).map(|node| node.node), Some(1));
}

#[test]
fn where_hardly_anything_is_lost_the_device_is_waited_for() {
    let node = |node: u32, kind: NodeKind, name: NodeName, (share, lost): (f64, f64)| ChainNode {
        node,
        kind,
        name,
        share,
        lost,
        ..ChainNode::default()
    };
    let chain = |lost: f64| {
        vec![
            ChainNode { waits_for: vec![1, 2], ..node(0, NodeKind::Thread, NodeName::Loop, (0.98, lost)) },
            node(1, NodeKind::Process, NodeName::Worker, (0.67, lost)),
            node(2, NodeKind::Device, NodeName::Named("0".into()), (0.31, 0.0)),
        ]
    };
    // A worker that works ahead is waited for while the device still has work.
    let end = |lost: f64| waits_for(&chain(lost)).map(|node| node.kind);
    assert_eq!(end(0.02), Some(NodeKind::Device));
    assert_eq!(end(0.3), Some(NodeKind::Process));
    // Without a device whoever is waited for longest.
    let mut without = chain(0.0);
    without.truncate(2);
    assert_eq!(waits_for(&without).map(|node| node.node), Some(1));
}
