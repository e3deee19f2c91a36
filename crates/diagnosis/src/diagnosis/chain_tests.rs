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
    let node = |node: u32, who: Who, end: Option<End>, (share, lost): (f64, f64)| ChainNode {
        node,
        who,
        end,
        share,
        lost,
        ..ChainNode::default()
    };
    let chain = |lost: f64| {
        vec![
            ChainNode { waits_for: vec![1, 2], ..node(0, Who::Loop(None), None, (0.98, lost)) },
            node(1, Who::Worker, Some(End::Cpu), (0.67, lost)),
            node(2, Who::Resource("0".into()), Some(End::Gpu), (0.31, 0.0)),
        ]
    };
    // A worker that works ahead is waited for while the gpu still has work.
    let end = |lost: f64| waits_for(&chain(lost)).map(|node| node.kind().to_owned());
    assert_eq!(end(0.02).as_deref(), Some("device"));
    assert_eq!(end(0.3).as_deref(), Some("process"));
    // Without a gpu whoever is waited for longest.
    let mut without = chain(0.0);
    without.truncate(2);
    assert_eq!(waits_for(&without).map(|node| node.node), Some(1));
}

#[test]
fn a_node_is_read_back_from_its_words() {
    let loops = [None, Some(Purpose::Own), Some(Purpose::Loads), Some(Purpose::Saves)].map(Who::Loop);
    let others = [Who::Thread("thread".into()), Who::Worker, Who::Process("loop".into())];
    let ends = End::ALL.into_iter().filter(|end| own_end(*end) == Some(*end)).map(Some).chain([None]);
    let mut nodes: Vec<ChainNode> = Vec::new();
    for end in ends {
        let who = others.iter().cloned().chain(end.map(|_| Who::Resource("0".into())));
        nodes.extend(who.map(|who| ChainNode { who, end, ..ChainNode::default() }));
    }
    let end = |who: &Who| if *who == Who::Loop(Some(Purpose::Own)) { Some(End::Cpu) } else { None };
    nodes.extend(loops.into_iter().map(|who| ChainNode { end: end(&who), who, ..ChainNode::default() }));
    nodes.push(ChainNode::default());
    for node in nodes {
        let words = serde_json::to_value(&node).unwrap();
        assert_eq!(serde_json::from_value::<ChainNode>(words.clone()).unwrap(), node, "{words}");
    }
}
