package gossip

import (
	"context"
	"io"
	"net"
	"net/netip"

	"google.golang.org/protobuf/proto"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// What hostile nodes of the tests use, and what the tests look at.
const (
	MaxUnproven    = maxUnproven
	MaxStreams     = maxStreams
	MaxStreamsEach = maxStreamsEach
	MaxRecord      = maxRecord
	MaxCatalog     = maxCatalog
	KindHello      = kindHello
	KindMembers    = kindMembers
	KindRecords    = kindRecords
)

// SignMark returns the metadata of a mark, signed by id.
func SignMark(id *identity.Identity, m *pb.Mark) ([]byte, error) { return signMark(id, m) }

// SignRecord returns the record of a statement, signed by id, and its digest. It knows no limit.
func SignRecord(id *identity.Identity, s *pb.Statement) (*pb.Record, []byte, error) {
	body, err := proto.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := id.Certificate()
	if err != nil {
		return nil, nil, err
	}
	_, signature, err := id.Sign(append([]byte(recordPurpose), body...))
	return &pb.Record{Certificate: certificate, Statement: body, Signature: signature}, digestOf(body), err
}

// NameOf returns the name of a process in memberlist.
func NameOf(m *pb.Mark) string { return nameOf(m) }

// Seal and Unseal encrypt and decrypt a packet with the keys that the group has from streams.
func (g *Group) Seal(text []byte) []byte              { return g.keys.seal(text) }
func (g *Group) Unseal(packet []byte) ([]byte, error) { return g.keys.open(packet) }

// Open opens a stream.
func (g *Group) Open(ctx context.Context, addr netip.AddrPort, kind byte) (net.Conn, error) {
	return g.open(ctx, addr, "", kind)
}

// Greet reads what a stream is for, and exchanges Hellos, without taking part in gossip for that.
func (g *Group) Greet(conn net.Conn) (kind byte, err error) {
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return 0, err
	}
	if _, err := g.readHello(conn); err != nil {
		return 0, err
	}
	_, err = conn.Write(g.hello(nil))
	return first[0], err
}

// ReadMessage and WriteMessage read and write a message of a stream.
func ReadMessage(r io.Reader, m proto.Message, limit int) error { return readMessage(r, m, limit) }
func WriteMessage(w io.Writer, m proto.Message) error           { return writeMessage(w, m) }

// Mark returns the newest mark of a node, as it was signed, and the mark itself; nil = none.
func (g *Group) Mark(id community.NodeID) ([]byte, *pb.Mark) {
	g.view.mu.Lock()
	defer g.view.mu.Unlock()
	if n := g.view.nodes[id]; n != nil {
		return n.meta, n.mark
	}
	return nil, nil
}

// IsAlive reports whether gossip says that a node is alive.
func (g *Group) IsAlive(id community.NodeID) bool { return g.view.isAlive(id) }

// Record returns the record of a node; nil = none.
func (g *Group) Record(id community.NodeID) *pb.Record {
	if all := g.view.records([]string{string(id)}); len(all) > 0 {
		return all[0]
	}
	return nil
}

// Sizes returns how many nodes the view has, and how many processes memberlist.
func (g *Group) Sizes() (known, listed int) {
	g.view.mu.Lock()
	defer g.view.mu.Unlock()
	if list := g.list.Load(); list != nil {
		listed = list.NumMembers()
	}
	return len(g.view.nodes), listed
}
