package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

const (
	// collect is how long changes of this node's catalog are collected before they are announced.
	collect = 250 * time.Millisecond
	// fetchPause is how long to wait between two rounds of asking for records, at least.
	fetchPause = 150 * time.Millisecond
	// maxFetches is how many nodes are asked at once.
	maxFetches = 2
	// maxMeetings is how many nodes are met at once.
	maxMeetings = 2
	// probeInterval is how often each node asks another one whether it is alive: 8 packets a second for each node.
	probeInterval = 500 * time.Millisecond
	// deadTime is how long memberlist remembers a dead process at least. It forgets it after the next round of probes.
	deadTime = 30 * time.Second
	// catchUpCheck is how often to look whether this node has heard of all others.
	catchUpCheck = time.Second
	// recheckPause is how often certificates are looked at.
	recheckPause = time.Minute
	// leaveTime is how long a node that stops waits until its goodbye is on its way.
	leaveTime = 400 * time.Millisecond
	// maxJoinState is how many bytes of records a node gets that joins. It asks for the others.
	maxJoinState = 4 << 20
)

// Config sets up a Group. All fields but Logger are required.
type Config struct {
	Identity *identity.Identity
	// Instance and Started are of this process: a later process of the same node replaces it.
	Instance string
	Started  time.Time
	// Packets carries packets; Run closes it. Port is where this node listens for streams, and for packets.
	Packets net.PacketConn
	Port    uint16
	// Dial opens a connection to another node.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// Describe returns what this node says of itself: name, protocol, catalog, max_message and holds_authority. Changed gets a
	// value when that has changed.
	Describe func() *pb.Statement
	Changed  <-chan struct{}
	// Seen is called for a node that became a member, and again for each newer record of it. Gone is called when it is a member
	// no more: it said so, or the others do not hear of it. Both are called serially, in order, and must not block.
	Seen func(*Node)
	Gone func(id community.NodeID, left bool, why error)
	// Revocations receives lists of removed nodes, from a node.
	Revocations func(from community.NodeID, lists ...*pb.Revocations)
	Logger      *slog.Logger
}

// Group is this node's part in the gossip of its authority. Make one with New, and run it. All methods may be called
// concurrently.
type Group struct {
	cfg       Config
	ctx       context.Context // ends with Run
	end       context.CancelFunc
	keys      *keys
	view      *view
	transport *transport
	streams   *streams

	list     atomic.Pointer[memberlist.Memberlist] // nil = this node does not take part
	at       atomic.Pointer[netip.AddrPort]        // where another node has reached this one
	begin    sync.Mutex                            // held while list is made
	own      ownRecord
	fetching chan struct{} // capacity maxFetches
	meeting  chan struct{} // capacity maxMeetings
	refuted  chan struct{} // capacity 1: memberlist has refuted that this node is dead
	loops    sync.WaitGroup
}

// ownRecord is what this node says of itself now.
type ownRecord struct {
	mu       sync.Mutex
	node     *Node  // guarded by mu
	sequence uint64 // of the newest statement or mark; guarded by mu
	leaving  bool   // guarded by mu
}

// New returns a Group that does nothing until Run.
func New(cfg Config) (*Group, error) {
	k, err := newKeys()
	if err != nil {
		return nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	g := &Group{cfg: cfg, keys: k, view: newView(cfg.Identity.ID(), cfg.Identity.Revocations()),
		fetching: make(chan struct{}, maxFetches), meeting: make(chan struct{}, maxMeetings), refuted: make(chan struct{}, 1)}
	g.ctx, g.end = context.WithCancel(context.Background())
	g.transport, g.streams = newTransport(g), newStreams()
	return g, nil
}

// Run takes part in gossip until ctx ends, says goodbye then, and returns when all that it started has ended.
func (g *Group) Run(ctx context.Context) error {
	g.loops.Go(func() {
		if err := g.transport.receive(); err != nil {
			g.cfg.Logger.Warn("no gossip", "err", err)
		}
	})
	g.loop(ctx)
	g.leave()
	g.end()
	g.cfg.Packets.Close()
	g.loops.Wait()
	return nil
}

// loop reports changes, fetches records and announces this node's own, until ctx ends.
func (g *Group) loop(ctx context.Context) {
	recheck := time.NewTicker(recheckPause)
	defer recheck.Stop()
	fetch, announce, catchUp := time.NewTimer(0), time.NewTimer(0), time.NewTicker(catchUpCheck)
	defer fetch.Stop()
	defer announce.Stop()
	defer catchUp.Stop()
	var forgotten <-chan time.Time // nil = no accusation is to be forgotten
	for ctx.Err() == nil {
		_, revoked := g.cfg.Identity.Revocations().Current()
		select {
		case <-ctx.Done():
		case <-g.view.wake:
			g.report()
			fetch.Reset(rand.N(fetchPause))
		case <-fetch.C:
			if wait := g.fetch(); wait > 0 {
				fetch.Reset(wait + rand.N(wait))
			}
		case <-catchUp.C:
			g.catchUp()
		case <-g.cfg.Changed:
			announce.Reset(collect)
		case <-announce.C:
			g.announce()
		case <-g.refuted:
			forgotten = time.After(g.memory())
		case <-forgotten:
			forgotten = nil
			g.spread()
		case <-recheck.C:
			g.announce() // with a certificate that was renewed
			g.view.recheck()
		case <-revoked.Done():
			if g.cfg.Identity.Cluster() != nil {
				if err := g.keys.rotate(); err != nil {
					g.cfg.Logger.Error("no new key for packets", "err", err)
				}
			}
			g.announce()
			g.view.recheck()
		}
	}
}

// report passes the changes of the view on.
func (g *Group) report() {
	for _, c := range g.view.changes() {
		if c.seen != nil {
			g.cfg.Seen(c.seen)
		} else if c.gone {
			g.cfg.Gone(c.id, c.left, c.why)
		}
	}
}

// epoch returns the epoch of the newest list of removed nodes.
func (g *Group) epoch() uint64 {
	list, _ := g.cfg.Identity.Revocations().Current()
	return list.GetEpoch()
}

// announce signs what this node says of itself, if that has changed, and tells the others that there is a newer record.
func (g *Group) announce() {
	s := g.cfg.Describe()
	s.Id, s.Instance, s.Started = string(g.cfg.Identity.ID()), g.cfg.Instance, timestamppb.New(g.cfg.Started)
	if at := g.at.Load(); at != nil {
		s.Addrs = []string{at.String()}
	}
	changed, err := g.own.update(g.cfg.Identity, s)
	if err != nil {
		g.cfg.Logger.Warn("this node's record is not announced", "err", err)
		return
	}
	if changed {
		g.spread()
	}
}

// spread tells the others where this node is, if it takes part.
func (g *Group) spread() {
	if list := g.list.Load(); list != nil {
		_ = list.UpdateNode(time.Millisecond) // the broadcast goes on without this
	}
}

// memory returns how long the others remember that this node is dead. It cannot refute an accusation with the highest
// incarnation, but a node that has forgotten it accepts any incarnation.
func (g *Group) memory() time.Duration {
	return deadTime + 2*probeInterval*time.Duration(g.list.Load().NumMembers())
}

// update makes a record of s the newest one. It reports whether it says anything else than the one before.
func (o *ownRecord) update(id *identity.Identity, s *pb.Statement) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.node != nil && o.node.NotAfter.Equal(id.NotAfter()) {
		s.Sequence = o.node.Statement.GetSequence()
		if proto.Equal(s, o.node.Statement) {
			return false, nil
		}
	}
	s.Sequence = o.sequence + 1
	n, err := sign(id, s)
	if err == nil {
		o.node, o.sequence = n, s.Sequence
	}
	return err == nil, err
}

func (o *ownRecord) isLeaving() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leaving
}

// mark returns this node's signed mark.
func (g *Group) mark() []byte {
	g.own.mu.Lock()
	defer g.own.mu.Unlock()
	g.own.sequence++
	at := g.advertised()
	m := &pb.Mark{Id: string(g.cfg.Identity.ID()), Instance: g.cfg.Instance, Started: timestamppb.New(g.cfg.Started),
		Sequence: g.own.sequence, Digest: g.own.node.digest, Ip: at.Addr().AsSlice(), Port: uint32(at.Port()),
		Leaving: g.own.leaving, Revocations: g.epoch()}
	meta, err := signMark(g.cfg.Identity, m)
	if err != nil {
		g.cfg.Logger.Error("this node cannot sign where it is", "err", err)
	}
	return meta
}

// recordOfThis returns this node's record. The node has announced itself.
func (g *Group) recordOfThis() *pb.Record {
	g.own.mu.Lock()
	defer g.own.mu.Unlock()
	return g.own.node.record
}

// advertised returns where another node has reached this one; the zero AddrPort as long as none has.
func (g *Group) advertised() netip.AddrPort {
	if at := g.at.Load(); at != nil {
		return *at
	}
	return netip.AddrPort{}
}

// takesPart reports whether this node takes part in gossip.
func (g *Group) takesPart() bool { return g.list.Load() != nil }

// join makes this node take part, at the address where another node has just reached it.
func (g *Group) join(reached net.Addr) error {
	g.begin.Lock()
	defer g.begin.Unlock()
	if g.takesPart() {
		return nil
	}
	if g.own.isLeaving() {
		return errors.New("this node stops")
	}
	addr, err := netip.ParseAddrPort(reached.String())
	if err != nil {
		return fmt.Errorf("reached at %s, which is no address: %w", reached, err)
	}
	at := netip.AddrPortFrom(addr.Addr().Unmap(), g.cfg.Port)
	g.at.Store(&at)
	g.announce()
	list, err := memberlist.Create(g.memberlistConfig())
	if err != nil {
		return err
	}
	g.list.Store(list)
	return nil
}

// memberlistConfig returns the settings for a LAN. Suspicion is short: who is called dead is dialed before it is believed.
func (g *Group) memberlistConfig() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name = nameOf(&pb.Mark{Id: string(g.cfg.Identity.ID()), Instance: g.cfg.Instance})
	c.Transport = g.transport
	c.ProtocolVersion = memberlist.ProtocolVersionMax
	c.AdvertisePort = int(g.cfg.Port)
	c.Delegate, c.Events, c.Alive = delegate{g}, g.view, g.view
	c.ProbeInterval, c.ProbeTimeout = probeInterval, probeInterval/2
	c.SuspicionMult = 2
	c.PushPullInterval = time.Minute
	c.RetransmitMult = 6                                      // of 24 nodes, one in a hundred changes did not reach all with 4
	c.GossipInterval, c.GossipNodes = 100*time.Millisecond, 4 // 40 packets a second when there is news of many nodes
	c.TCPTimeout = streamTimeout
	c.EnableCompression = false
	c.DisableTcpPings = true // the doubt of Config.Gone dials
	c.UDPBufferSize = maxPacket - packetRoom
	c.GossipToTheDeadTime = deadTime
	c.LogOutput, c.Logger = nil, slog.NewLogLogger(quiet{g.cfg.Logger.Handler(), g.refuted}, slog.LevelDebug)
	return c
}

// quiet passes on no line of memberlist above Debug: what matters of them is reported by the Group. memberlist says only by a
// line that it has refuted an accusation of this node.
type quiet struct {
	slog.Handler
	refuted chan<- struct{}
}

func (quiet) Enabled(context.Context, slog.Level) bool { return true }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "[WARN] memberlist: Refuting") {
		select {
		case q.refuted <- struct{}{}:
		default:
		}
	}
	if !q.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// delegate gives memberlist what this node says of itself. Nothing else travels with memberlist's messages.
type delegate struct{ group *Group }

func (d delegate) NodeMeta(int) []byte           { return d.group.mark() }
func (delegate) NotifyMsg([]byte)                {}
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns the records that this node has, for a node that joins, as far as maxJoinState goes.
func (d delegate) LocalState(join bool) []byte {
	if !join {
		return nil
	}
	all := &pb.RecordsReply{Records: []*pb.Record{d.group.recordOfThis()}}
	size := proto.Size(all)
	for _, r := range d.group.view.records(nil) {
		if size += proto.Size(r); size > maxJoinState {
			break
		}
		all.Records = append(all.Records, r)
	}
	state, _ := proto.Marshal(all) // no error: no required fields
	return state
}

// MergeRemoteState takes the records of a node that this one joins, or that joins this one. Those of nodes that memberlist did
// not tell of, or that do not prove themselves, are left out.
func (d delegate) MergeRemoteState(state []byte, join bool) {
	all := &pb.RecordsReply{}
	if !join || len(state) > maxJoinState+maxRecord || proto.Unmarshal(state, all) != nil {
		return
	}
	for _, r := range all.GetRecords()[:min(len(all.GetRecords()), maxNodes)] {
		if d.group.view.hasRecord(r) {
			continue
		}
		if n, err := verify(d.group.cfg.Identity, r); err == nil {
			d.group.view.store(n)
		}
	}
}

// leave says goodbye, if this node takes part.
func (g *Group) leave() {
	g.begin.Lock()
	list := g.list.Load()
	g.own.mu.Lock()
	g.own.leaving = true
	g.own.mu.Unlock()
	g.begin.Unlock()
	if list == nil {
		return
	}
	_ = list.UpdateNode(leaveTime) // those that do not hear it find out by themselves
	_ = list.Shutdown()            // memberlist's own goodbye is not signed, and would replace this one on its way
}

// Meet brings the views of this node and of another one together that has dialed this one, and can be dialed at addr. It does
// nothing if gossip knows the node. It blocks for the dial.
func (g *Group) Meet(id community.NodeID, addr netip.AddrPort) error {
	if g.view.isAlive(id) {
		return nil
	}
	select {
	case g.meeting <- struct{}{}:
		defer func() { <-g.meeting }()
	case <-g.ctx.Done():
		return nil
	}
	if g.view.isAlive(id) {
		return nil
	}
	if list := g.list.Load(); list != nil {
		_, err := list.Join([]string{string(id) + "./" + addr.String()})
		return err
	}
	// The answer to this comes from the other node, and proves that this one can be reached.
	ctx, cancel := context.WithTimeout(g.ctx, streamTimeout)
	defer cancel()
	s, err := g.open(ctx, addr, id, kindHello)
	if err == nil {
		s.Close()
	}
	return err
}

// catchUp asks a node for the marks of all that it knows, if this node has probably not heard of all. News that many nodes
// spread at once does not reach each of them; memberlist itself asks for all every few minutes only.
func (g *Group) catchUp() {
	list := g.list.Load()
	if list == nil || !g.view.isBehind() {
		return
	}
	select {
	case g.meeting <- struct{}{}:
	default:
		return
	}
	g.loops.Go(func() {
		defer func() { <-g.meeting }()
		if from, ok := g.view.catchUp(); ok {
			_, err := list.Join([]string{string(from.id) + "./" + from.addr.String()})
			g.cfg.Logger.Debug("asked for all nodes", "node", from.id, "addr", from.addr, "err", err)
		}
	})
}

// fetch asks some of the nodes whose records are missing. It returns when to look again; 0 = nothing is missing.
func (g *Group) fetch() time.Duration {
	missing, wait := g.view.missing(g.epoch())
	if len(missing) == 0 {
		return wait
	}
	select {
	case g.fetching <- struct{}{}:
	default:
		return fetchPause
	}
	owner := missing[rand.N(len(missing))]
	rand.Shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
	ids := []string{string(owner.id)}
	for _, w := range missing[:min(len(missing), maxRequest-1)] {
		if w.id != owner.id {
			ids = append(ids, string(w.id))
		}
	}
	g.view.postpone(owner.id)
	g.loops.Go(func() {
		defer func() { <-g.fetching }()
		if err := g.ask(owner, ids); err != nil {
			g.cfg.Logger.Debug("records not fetched", "node", owner.id, "addr", owner.addr, "err", err)
		}
	})
	return fetchPause
}

// ask gets records from a node, and stores those that prove themselves.
func (g *Group) ask(from want, ids []string) error {
	ctx, cancel := context.WithTimeout(g.ctx, streamTimeout)
	defer cancel()
	s, err := g.open(ctx, from.addr, from.id, kindRecords)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := writeMessage(s, &pb.RecordsRequest{Ids: ids}); err != nil {
		return err
	}
	asked := map[string]bool{}
	for _, id := range ids {
		asked[id] = true
	}
	// Each record comes in a reply of its own, so that none has to be held that was not asked for.
	for range len(ids) + 1 {
		reply := &pb.RecordsReply{}
		if err := readMessage(s, reply, maxReply); err != nil {
			return err
		}
		if len(reply.GetRevocations()) > 0 {
			g.cfg.Revocations(from.id, reply.GetRevocations()...)
		}
		if len(reply.GetRecords()) == 0 {
			return nil // the last one
		}
		for _, r := range reply.GetRecords()[:1] {
			n, err := verify(g.cfg.Identity, r)
			if err != nil || !asked[string(n.ID)] {
				return errors.Join(errors.New("a record that was not asked for, or is wrong"), err)
			}
			delete(asked, string(n.ID))
			g.view.store(n)
		}
	}
	return nil
}

// answer sends the records that another node asks for, then an empty reply with the lists of removed nodes.
func (g *Group) answer(s net.Conn) error {
	request := &pb.RecordsRequest{}
	if err := readMessage(s, request, maxRequest*64); err != nil {
		return err
	}
	ids := request.GetIds()
	if len(ids) > maxRequest {
		return fmt.Errorf("a request for %d records", len(ids))
	}
	records := g.view.records(ids)
	if self := string(g.cfg.Identity.ID()); slices.Contains(ids, self) {
		records = append(records, g.recordOfThis())
	}
	for _, r := range records {
		if err := writeMessage(s, &pb.RecordsReply{Records: []*pb.Record{r}}); err != nil {
			return err
		}
	}
	lists, _ := g.cfg.Identity.Revocations().Lists()
	return writeMessage(s, &pb.RecordsReply{Revocations: lists})
}
