package gossip_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/gossip"
)

// hostile is a node that its authority has signed, and that does not keep to the protocol.
type hostile struct {
	*node
	t      *testing.T
	honest []*node
	// serves serves a stream of a kind that another node has opened; nil = it is closed.
	serves atomic.Pointer[func(kind byte, conn net.Conn)]
}

// The messages of memberlist, and their fields.
const (
	pingMessage    = 0
	ackMessage     = 2
	suspectMessage = 3
	aliveMessage   = 4
	deadMessage    = 5
)

// message encodes a message of memberlist: its kind, and a map of MessagePack.
func message(kind byte, fields ...any) []byte {
	b := []byte{kind, 0x80 | byte(len(fields)/2)}
	for _, f := range fields {
		switch f := f.(type) {
		case nil:
			b = append(b, 0xc0)
		case uint32:
			b = binary.BigEndian.AppendUint32(append(b, 0xce), f)
		case string:
			b = append(binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(f))), f...)
		case []byte:
			b = append(binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(f))), f...)
		}
	}
	return b
}

// number returns the number behind a key in a message of memberlist.
func number(text []byte, key string) (uint32, bool) {
	_, rest, ok := bytes.Cut(text, []byte(key))
	if !ok || len(rest) < 5 {
		return 0, false
	}
	switch rest[0] {
	case 0xcc:
		return uint32(rest[1]), true
	case 0xcd:
		return uint32(binary.BigEndian.Uint16(rest[1:])), true
	case 0xce:
		return binary.BigEndian.Uint32(rest[1:]), true
	}
	return uint32(rest[0]), rest[0] < 0x80
}

// alive returns what memberlist says of a living process.
func alive(m *pb.Mark, meta []byte, incarnation uint32) []byte {
	return message(aliveMessage, "Incarnation", incarnation, "Node", gossip.NameOf(m), "Addr", m.GetIp(), "Port", m.GetPort(), "Meta", meta,
		"Vsn", []byte{1, 5, 5, 0, 0, 0})
}

func accusation(kind byte, process string, incarnation uint32, from string) []byte {
	return message(kind, "Incarnation", incarnation, "Node", process, "From", from)
}

// send sends a message to all honest nodes.
func (h *hostile) send(text []byte) {
	for _, o := range h.honest {
		h.sendTo(o, text)
	}
}

func (h *hostile) sendTo(o *node, text []byte) { h.throw(o, h.group.Seal(text)) }

// throw sends bytes to a node.
func (h *hostile) throw(o *node, b []byte) {
	_, _ = (&packetConn{node: h.node}).WriteTo(b, net.UDPAddrFromAddrPort(o.at)) // returns no error
}

// mark returns a mark of the hostile node's own, changed by change.
func (h *hostile) mark(change ...func(*pb.Mark)) *pb.Mark {
	m := &pb.Mark{Id: string(h.id.ID()), Instance: "evil", Started: timestamppb.New(time.Now()), Sequence: 1, Digest: make([]byte, 16),
		Ip: h.at.Addr().AsSlice(), Port: uint32(h.at.Port())}
	for _, f := range change {
		f(m)
	}
	return m
}

// sign returns a mark as a node signs it.
func (h *hostile) sign(by *identity.Identity, m *pb.Mark) []byte {
	h.t.Helper()
	meta, err := gossip.SignMark(by, m)
	if err != nil {
		h.t.Fatal(err)
	}
	return meta
}

// announce makes the hostile node known with the record of a statement.
func (h *hostile) announce(by *identity.Identity, s *pb.Statement, sequence uint64) *pb.Record {
	h.t.Helper()
	r, digest, err := gossip.SignRecord(by, s)
	if err != nil {
		h.t.Fatal(err)
	}
	m := h.mark(func(m *pb.Mark) {
		m.Digest, m.Sequence, m.Started = digest, sequence, timestamppb.New(h.lan.began)
	})
	h.send(alive(m, h.sign(h.id, m), uint32(sequence)))
	return r
}

// statement is what the hostile node says of itself.
func (h *hostile) statement(sequence uint64) *pb.Statement {
	return &pb.Statement{Id: string(h.id.ID()), Name: "eve", Instance: "evil", Started: timestamppb.New(h.lan.began), Sequence: sequence}
}

// listen answers all probes, as if every process that other nodes look for here were alive.
func (h *hostile) listen() {
	h.lan.running.Go(func() {
		b := make([]byte, 64<<10)
		for {
			n, from, err := (&packetConn{node: h.node}).ReadFrom(b)
			if err != nil {
				return
			}
			text, err := h.group.Unseal(b[:n])
			if err != nil {
				continue
			}
			if at := bytes.Index(text, []byte("SourceNode")); at < 0 { // no probe
				continue
			}
			if seq, ok := number(text, "SeqNo"); ok {
				if o := h.lan.find(from.(*net.UDPAddr).AddrPort()); o != nil {
					h.sendTo(o, message(ackMessage, "SeqNo", seq, "Payload", nil))
				}
			}
		}
	})
}

// serveStream is for streams that other nodes open.
func (h *hostile) serveStream(conn net.Conn) {
	defer conn.Close()
	kind, err := h.group.Greet(conn)
	if serves := h.serves.Load(); err == nil && serves != nil {
		(*serves)(kind, conn)
	}
}

// open opens a stream to a node; nil = it was refused.
func (h *hostile) open(o *node, kind byte) net.Conn {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	conn, err := h.group.Open(ctx, o.at, kind)
	if err != nil {
		return nil
	}
	return conn
}

// each calls f every pause until the time is over.
func each(span, pause time.Duration, f func()) {
	for began := time.Now(); time.Since(began) < span; time.Sleep(pause) {
		f()
	}
}

// stranger returns an identity that no authority of the honest nodes knows.
func (h *hostile) stranger(a *identity.Authority, i int) *identity.Identity {
	h.t.Helper()
	k, err := identity.LoadOrCreateKey(filepath.Join(h.lan.dir, fmt.Sprintf("stranger%d.pem", i)))
	if err != nil {
		h.t.Fatal(err)
	}
	id, err := a.Issue(k)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// attacks are what hostile members do. The victims are the first honest node, and what gone has left behind: a node that was a
// member and was killed.
var attacks = map[string]func(h *hostile, gone *node){
	"says that living nodes are dead": func(h *hostile, _ *node) {
		_, m := h.honest[1].group.Mark(h.honest[0].id.ID())
		incarnation := uint32(1)
		each(10*time.Second, 100*time.Millisecond, func() {
			incarnation += 10
			h.send(accusation(deadMessage, gossip.NameOf(m), incarnation, gossip.NameOf(h.mark())))
			h.send(accusation(deadMessage, gossip.NameOf(m), incarnation, gossip.NameOf(m))) // as its own goodbye
		})
	},
	"says that a living node is dead, for good": func(h *hostile, _ *node) {
		_, m := h.honest[1].group.Mark(h.honest[0].id.ID())
		each(5*time.Second, 100*time.Millisecond, func() { h.send(accusation(deadMessage, gossip.NameOf(m), math.MaxUint32, gossip.NameOf(m))) })
		time.Sleep(2 * time.Minute)
		for i, o := range h.honest[1:] {
			if !o.group.IsAlive(h.honest[0].id.ID()) {
				h.t.Errorf("node %d holds it dead for good", i+1)
			}
		}
	},
	"suspects all": func(h *hostile, _ *node) {
		incarnation := uint32(1)
		each(10*time.Second, 100*time.Millisecond, func() {
			incarnation++
			for _, o := range h.honest {
				if _, m := h.honest[len(h.honest)-1].group.Mark(o.id.ID()); m != nil {
					h.send(accusation(suspectMessage, gossip.NameOf(m), incarnation, gossip.NameOf(h.mark())))
				}
			}
		})
	},
	"sends another's mark from its own address": func(h *hostile, _ *node) {
		meta, m := h.honest[1].group.Mark(h.honest[0].id.ID())
		m = &pb.Mark{Id: m.GetId(), Instance: m.GetInstance(), Ip: h.at.Addr().AsSlice(), Port: uint32(h.at.Port())}
		each(10*time.Second, 100*time.Millisecond, func() { h.send(alive(m, meta, 1000)) })
	},
	"signs another's mark": func(h *hostile, _ *node) {
		_, m := h.honest[1].group.Mark(h.honest[0].id.ID())
		m = &pb.Mark{Id: m.GetId(), Instance: m.GetInstance(), Started: m.GetStarted(), Sequence: 1000, Digest: m.GetDigest(), Leaving: true,
			Ip: h.at.Addr().AsSlice(), Port: uint32(h.at.Port())}
		each(10*time.Second, 100*time.Millisecond, func() { h.send(alive(m, h.sign(h.id, m), 1000)) })
	},
	"repeats old marks": func(h *hostile, _ *node) {
		meta, m := h.honest[1].group.Mark(h.honest[0].id.ID())
		h.honest[0].offers("new")
		time.Sleep(5 * time.Second)
		each(10*time.Second, 100*time.Millisecond, func() { h.send(alive(m, meta, 1000)) })
	},
	"repeats the marks of a dead node": func(h *hostile, gone *node) {
		meta, m := h.honest[1].group.Mark(gone.id.ID())
		incarnation := uint32(1)
		each(15*time.Second, 100*time.Millisecond, func() { incarnation++; h.send(alive(m, meta, incarnation)) })
	},
	"floods with packets": func(h *hostile, _ *node) {
		junk := bytes.Repeat([]byte{0xff}, 1300)
		each(time.Second, 10*time.Millisecond, func() {
			for range 20 {
				h.send(junk)
				h.throw(h.honest[0], junk)
			}
		})
	},
	"opens streams": func(h *hostile, _ *node) {
		each(500*time.Millisecond, 50*time.Millisecond, func() {
			for range gossip.MaxStreamsEach + 1 {
				h.lan.running.Go(func() {
					if c := h.open(h.honest[0], gossip.KindHello); c != nil {
						c.Close()
					}
				})
			}
		})
	},
	"holds streams open": func(h *hostile, _ *node) {
		refused := 0
		defer func() {
			if refused > 0 {
				h.t.Errorf("an honest node was refused %d times", refused)
			}
		}()
		each(6*time.Second, 200*time.Millisecond, func() {
			if c := (&hostile{node: h.honest[1]}).open(h.honest[0], gossip.KindHello); c == nil {
				refused++
			} else {
				c.Close()
			}
			for _, kind := range []byte{gossip.KindMembers, gossip.KindRecords, gossip.KindRecords, gossip.KindRecords, gossip.KindRecords} {
				h.lan.running.Go(func() {
					if c := h.open(h.honest[0], kind); c != nil {
						_, _ = c.Read(make([]byte, 1)) // until it is closed
						c.Close()
					}
				})
			}
		})
	},
	"starts again and again": func(h *hostile, _ *node) {
		for i := range 100 {
			m := h.mark(func(m *pb.Mark) {
				m.Instance, m.Started = fmt.Sprint("p", i), timestamppb.New(h.lan.began.Add(time.Duration(i)))
			})
			h.send(alive(m, h.sign(h.id, m), 1))
			if i%10 == 9 {
				time.Sleep(50 * time.Millisecond)
			}
		}
	},
	"makes up more nodes than there is room for": func(h *hostile, _ *node) {
		a, err := identity.OpenLocalAuthority(filepath.Join(h.lan.dir, "strangers"))
		if err != nil {
			h.t.Fatal(err)
		}
		for i := range gossip.MaxUnproven + 20 { // more: keys are slow to make
			id := h.stranger(a, i)
			m := h.mark(func(m *pb.Mark) { m.Id, m.Instance = string(id.ID()), fmt.Sprint("p", i) })
			h.send(alive(m, h.sign(id, m), 1))
			if i%20 == 19 {
				time.Sleep(20 * time.Millisecond)
			}
		}
	},
	"offers more capabilities than a record holds": func(h *hostile, _ *node) {
		s := h.statement(1)
		s.Catalog = &pb.Catalog{}
		for i := range gossip.MaxRecord / 60 {
			s.Catalog.Capabilities = append(s.Catalog.Capabilities, &pb.Capability{Name: fmt.Sprintf("%60d", i)})
		}
		h.answerWith(h.announce(h.id, s, 1))
	},
	"offers more capabilities than are kept": func(h *hostile, _ *node) {
		s := h.statement(1)
		s.Catalog = &pb.Catalog{}
		for range 25 * gossip.MaxCatalog { // of over a hundred bytes each in memory
			s.Catalog.Capabilities = append(s.Catalog.Capabilities, &pb.Capability{})
		}
		h.answerWith(h.announce(h.id, s, 1))
	},
	"answers with another's record": func(h *hostile, _ *node) {
		h.announce(h.id, h.statement(1), 1)
		h.answerWith(h.honest[1].group.Record(h.honest[0].id.ID()))
	},
	"answers with a record of another authority": func(h *hostile, _ *node) {
		a, err := identity.OpenLocalAuthority(filepath.Join(h.lan.dir, "strangers"))
		if err != nil {
			h.t.Fatal(err)
		}
		h.answerWith(h.announce(h.stranger(a, 0), h.statement(1), 1))
	},
	"answers without an end": func(h *hostile, _ *node) {
		r := h.announce(h.id, h.statement(1), 1)
		serves := func(_ byte, conn net.Conn) {
			for gossip.WriteMessage(conn, &pb.RecordsReply{Records: []*pb.Record{r}}) == nil {
			}
		}
		h.serves.Store(&serves)
	},
}

// answerWith makes the hostile node answer requests for records with r, until the attack is over.
func (h *hostile) answerWith(r *pb.Record) {
	serves := func(kind byte, conn net.Conn) {
		if kind == gossip.KindRecords && gossip.ReadMessage(conn, &pb.RecordsRequest{}, 1<<20) == nil {
			_ = gossip.WriteMessage(conn, &pb.RecordsReply{Records: []*pb.Record{r}})
			_ = gossip.WriteMessage(conn, &pb.RecordsReply{})
		}
	}
	h.serves.Store(&serves)
	time.Sleep(5 * time.Second)
}

// A node that its authority has signed, and that lies about others, repeats what they said, or floods, makes no member and removes
// none; what it makes the others keep is bounded.
func TestHostileMembers(t *testing.T) {
	table := []string{fmt.Sprintf("%-45s | dials | KiB goroutines more | nodes known, listed", "a hostile member")}
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		attack := attacks[name]
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { table = append(table, fmt.Sprintf("%-45s | ", name)+meetHostile(t, attack)) })
		})
	}
	t.Log("\n" + strings.Join(table, "\n"))
}

func meetHostile(t *testing.T, attack func(h *hostile, gone *node)) string {
	const n = 4 // honest nodes
	l := newLAN(t, 0)
	var all []*node
	for range n + 1 {
		all = append(all, l.add(nil))
	}
	h := &hostile{node: l.add(nil), t: t, honest: all[:n]}
	defer l.end()
	h.stop = func() { close(h.done) }
	h.node.hostile = h
	for i, one := range all {
		one.run()
		for _, o := range all[:i] {
			one.meet(o)
		}
	}
	await(t, "whole", time.Now(), func() bool { return knowing(all, n) == len(all) })
	gone := all[n]
	gone.kill()
	await(t, "the killed node is lost", time.Now(), func() bool { return knowing(h.honest, n-1) == n })
	for _, o := range h.honest {
		if c := h.open(o, gossip.KindHello); c != nil { // by which it has the key of packets
			c.Close()
		}
	}
	time.Sleep(3 * time.Second)
	before, routines := heap(), runtime.NumGoroutine()

	h.listen()
	attack(h, gone)
	more := (runtime.NumGoroutine() - routines) / n
	time.Sleep(12 * time.Second)
	memory := max(0, heap()-before) / n >> 10

	dials, known, listed := int64(0), 0, 0
	for i, o := range h.honest {
		for _, p := range h.honest {
			if m := o.member(p.id.ID()); o != p && m == nil {
				t.Errorf("node %d does not see node %v any more", i, p.at)
			}
		}
		if m := o.member(gone.id.ID()); m != nil {
			t.Errorf("node %d sees the node that was killed", i)
		}
		if got := o.known.Load(); got > n {
			t.Errorf("node %d sees %d others, want %d, and the hostile one at most", i, got, n-1)
		}
		dials += o.verdicts.Load()
		k, l := o.group.Sizes()
		known, listed = max(known, k), max(listed, l)
	}
	if known > gossip.MaxUnproven+n+2 || listed > known+8 || memory > 4<<10 || more > gossip.MaxStreams {
		t.Errorf("%d nodes are known, %d listed, %d KiB and %d goroutines more for each node", known, listed, memory, more)
	}
	return fmt.Sprintf("%5d | %6d %12d | %4d %6d", dials, memory, more, known, listed)
}
