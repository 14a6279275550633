package gossip

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// The lines that say for what a signature was made (identity.Identity.Sign).
const (
	recordPurpose = "symbio record v1\n"
	markPurpose   = "symbio mark v1\n"
)

const (
	digestSize = 16
	// maxRecord is the longest record, in bytes: as long as the catalog of a node may be that a community takes whole.
	maxRecord = 1 << 20
	maxAddrs  = 4
	// maxCatalog is how many members, and how many capabilities, of a catalog are kept: more than a community takes. Two bytes
	// of a record can be a capability of over a hundred bytes.
	maxCatalog = 4096
)

// Node is another node, as its verified record describes it. It is not changed.
type Node struct {
	identity.Peer
	// Statement is the node's own description. Only its id is proven.
	Statement *pb.Statement
	// NotAfter is when its certificate ends.
	NotAfter time.Time
	// Addrs are where it says that it listens.
	Addrs []netip.AddrPort

	record *pb.Record
	digest []byte
}

// sign returns the record of a statement of this node.
func sign(id *identity.Identity, s *pb.Statement) (*Node, error) {
	body, err := proto.Marshal(s)
	if err != nil {
		return nil, err
	}
	if len(body) > maxRecord {
		return nil, fmt.Errorf("what this node offers takes %d bytes; other nodes take %d", len(body), maxRecord)
	}
	certificate, err := id.Certificate()
	if err != nil {
		return nil, err
	}
	_, signature, err := id.Sign(slices.Concat([]byte(recordPurpose), body))
	r := &pb.Record{Certificate: certificate, Statement: body, Signature: signature}
	return &Node{Statement: s, NotAfter: id.NotAfter(), record: r, digest: digestOf(body)}, err
}

// verify returns the node of a record, after all checks that do not depend on what is known of it.
func verify(id *identity.Identity, r *pb.Record) (*Node, error) {
	if len(r.GetStatement()) > maxRecord {
		return nil, fmt.Errorf("a record of %d bytes", len(r.GetStatement()))
	}
	text := slices.Concat([]byte(recordPurpose), r.GetStatement())
	p, err := id.VerifyCertificate(r.GetCertificate())
	if err == nil && !p.Signed(text, r.GetSignature()) {
		err = fmt.Errorf("%w: the certificate's key has not signed this", identity.ErrNotNode)
	}
	if err != nil {
		return nil, err
	}
	s := &pb.Statement{}
	if err := proto.Unmarshal(r.GetStatement(), s); err != nil {
		return nil, err
	}
	if s.GetId() != string(p.ID) {
		return nil, fmt.Errorf("%w: it calls itself %q", identity.ErrNotNode, s.GetId())
	}
	if c := s.GetCatalog(); c != nil {
		c.Members = slices.Clone(c.Members[:min(len(c.Members), maxCatalog)])
		c.Capabilities = slices.Clone(c.Capabilities[:min(len(c.Capabilities), maxCatalog)])
	}
	n := &Node{Peer: p.Peer, Statement: s, NotAfter: p.NotAfter, record: r, digest: digestOf(r.GetStatement())}
	for _, a := range s.GetAddrs()[:min(len(s.GetAddrs()), maxAddrs)] {
		if addr, err := netip.ParseAddrPort(a); err == nil && usable(addr) {
			n.Addrs = append(n.Addrs, addr)
		}
	}
	return n, nil
}

// usable reports whether a node can be dialed at a.
func usable(a netip.AddrPort) bool {
	return a.IsValid() && a.Port() != 0 && !a.Addr().IsUnspecified() && !a.Addr().IsMulticast()
}

func digestOf(statement []byte) []byte {
	sum := sha256.Sum256(statement)
	return sum[:digestSize]
}

// newer reports whether n comes after o, a record of the same node: of a later process, or a later one of the same.
func (n *Node) newer(o *Node) bool { return o == nil || later(n.Statement, o.Statement) }

// version is what says which of two statements, or of two marks, of one node is newer.
type version interface {
	GetInstance() string
	GetStarted() *timestamppb.Timestamp
	GetSequence() uint64
}

// later reports whether a comes after b. Processes that began at the same instant have an order, too.
func later(a, b version) bool {
	if a.GetInstance() == b.GetInstance() {
		return a.GetSequence() > b.GetSequence()
	}
	order := a.GetStarted().AsTime().Compare(b.GetStarted().AsTime())
	return cmp.Or(order, cmp.Compare(a.GetInstance(), b.GetInstance())) > 0
}

// matches reports whether the record n is the one that m names.
func (n *Node) matches(m *pb.Mark) bool { return n != nil && bytes.Equal(n.digest, m.GetDigest()) }

// signMark returns the metadata of this node.
func signMark(id *identity.Identity, m *pb.Mark) ([]byte, error) {
	body, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	public, signature, err := id.Sign(slices.Concat([]byte(markPurpose), body))
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&pb.SignedMark{Mark: body, PublicKey: public, Signature: signature})
}

var errMark = errors.New("it is not a mark that its node has signed")

// verifyMark returns the mark in the metadata of a node, which its node has signed. It knows nothing of authorities.
func verifyMark(meta []byte) (*pb.Mark, error) {
	signed, m := &pb.SignedMark{}, &pb.Mark{}
	if err := proto.Unmarshal(meta, signed); err != nil {
		return nil, errMark
	}
	if err := proto.Unmarshal(signed.GetMark(), m); err != nil || len(m.GetDigest()) != digestSize || len(m.GetInstance()) > 64 {
		return nil, errMark
	}
	id, err := identity.ParseNodeID(m.GetId())
	text := slices.Concat([]byte(markPurpose), signed.GetMark())
	if err != nil || !identity.Signed(id, signed.GetPublicKey(), text, signed.GetSignature()) {
		return nil, errMark
	}
	if _, ok := addrOf(m); !ok {
		return nil, errMark
	}
	return m, nil
}

// addrOf returns where the process of a mark can be reached.
func addrOf(m *pb.Mark) (netip.AddrPort, bool) {
	ip, ok := netip.AddrFromSlice(m.GetIp())
	a := netip.AddrPortFrom(ip.Unmap(), uint16(m.GetPort()))
	return a, ok && m.GetPort() < 1<<16 && usable(a)
}

// nameOf returns the name of a process in memberlist: the node and its process, so that a node that starts again is
// another member, whose address may be another one.
func nameOf(m *pb.Mark) string { return m.GetId() + "." + m.GetInstance() }
