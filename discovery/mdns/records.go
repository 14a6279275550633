package mdns

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"symbio/internal/security/lazyregexp"
)

const (
	// recordTTL is what our records live for, in seconds: the library's and the RFC's value for records that hold a
	// host name (RFC 6762 section 10).
	recordTTL = 120
	// topBit of a class is the cache-flush bit in an answer (RFC 6762 10.2) and the QU bit in a question (5.4).
	topBit = 1 << 15

	// maxRecords bounds the records of one packet: 9000 bytes hold no more that mean anything.
	// maxTXT bounds the TXT data in bytes, so that the record fits into a message of 512 bytes (RFC
	// 6763 6.2).
	maxRecords = 512
	maxTXT     = 400
	maxTXTKeys = 16
	// instanceLn is how many hex digits of the node id name the instance: 64 bits, which is enough
	// on one LAN and keeps the names short.
	instanceLn = 16

	// enumeration is the name under which browsers of DNS-SD list the service types of a network
	// (RFC 6763 section 9).
	enumeration = "_services._dns-sd._udp.local."
)

var (
	// These patterns decide what is announced and what is accepted. Everything that passes is safe
	// to log and to show on a terminal.
	nodeID      = lazyregexp.New(`^[0-9a-f]{32,64}$`)
	plain       = lazyregexp.New(`^[A-Za-z0-9._:-]{1,64}$`)
	serviceName = lazyregexp.New(`^_[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?\._tcp$`)
)

// self is what this node announces about itself. The names are fully qualified and in lower case.
type self struct {
	service, instance, host string
	id, tag, protocol       string
	port                    uint16
}

// newSelf checks what the configuration would announce. The errors say which value is invalid. A
// node without a port announces nothing.
func newSelf(cfg Config) (self, error) {
	if !serviceName().MatchString(cfg.Service) {
		return self{}, fmt.Errorf("mdns: service %q is not of the form _name._tcp with a name of at most 15 characters", cfg.Service)
	}
	me := self{service: cfg.Service + ".local.", id: cfg.Node, tag: cfg.Tag, protocol: cfg.Protocol, port: cfg.Port}
	if me.port == 0 {
		return me, nil
	}
	if !nodeID().MatchString(me.id) {
		return self{}, fmt.Errorf("mdns: node id %q is not 32 to 64 lower-case hex digits", me.id)
	}
	for _, v := range []string{me.tag, me.protocol} {
		if v != "" && !plain().MatchString(v) {
			return self{}, fmt.Errorf("mdns: tag or protocol %q has characters that are not announced", v)
		}
	}
	me.instance = me.id[:instanceLn] + "." + me.service
	me.host = me.id[:instanceLn] + ".local."
	return me, nil
}

// records returns all records of this node for the given addresses. ttl is in seconds; 0 makes them
// a goodbye. flush sets the cache-flush bit, which marks them as complete for their interface: set
// for announcements (RFC 6762 10.2), never for unicast answers (6.7).
func (me self) records(addrs []netip.Addr, ttl uint32, flush bool) []dns.RR {
	head := func(name string, kind uint16, unique bool) dns.RR_Header {
		h := dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
		if unique && flush {
			h.Class |= topBit
		}
		return h
	}
	rrs := []dns.RR{
		&dns.PTR{Hdr: head(me.service, dns.TypePTR, false), Ptr: me.instance}, // shared with every other node
		&dns.SRV{Hdr: head(me.instance, dns.TypeSRV, true), Port: me.port, Target: me.host},
		&dns.TXT{Hdr: head(me.instance, dns.TypeTXT, true), Txt: me.txt()},
	}
	for _, a := range addrs {
		if a.Is4() {
			rrs = append(rrs, &dns.A{Hdr: head(me.host, dns.TypeA, true), A: a.AsSlice()})
		} else {
			rrs = append(rrs, &dns.AAAA{Hdr: head(me.host, dns.TypeAAAA, true), AAAA: a.WithZone("").AsSlice()})
		}
	}
	return rrs
}

// txt returns the strings of the TXT record. Optional ones are left out when empty.
func (me self) txt() []string {
	out := []string{"txtvers=1", "id=" + me.id}
	if me.tag != "" {
		out = append(out, "cl="+me.tag)
	}
	if me.protocol != "" {
		out = append(out, "pv="+me.protocol)
	}
	return out
}

// answers returns the records that answer a question. A question for the service or for
// everything of the instance gets all records, so that the asker need not ask again.
func (me self) answers(q dns.Question, rrs []dns.RR) []dns.RR {
	name := dns.CanonicalName(q.Name)
	wants := func(kind uint16) bool { return q.Qtype == kind || q.Qtype == dns.TypeANY }
	if me.port == 0 || q.Qclass&^topBit != dns.ClassINET && q.Qclass&^topBit != dns.ClassANY {
		return nil
	}
	if name == enumeration && wants(dns.TypePTR) {
		head := dns.RR_Header{Name: enumeration, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: recordTTL}
		return []dns.RR{&dns.PTR{Hdr: head, Ptr: me.service}}
	}
	if name == me.service && wants(dns.TypePTR) || name == me.instance && q.Qtype == dns.TypeANY {
		return rrs // all of it, so that the asker need not ask again
	}
	var out []dns.RR
	for _, rr := range rrs {
		if h := rr.Header(); h.Rrtype != dns.TypePTR && h.Name == name && wants(h.Rrtype) {
			out = append(out, rr)
		}
	}
	return out
}

// matches reports whether a question is for one of this node's records.
func (me self) matches(q dns.Question) bool {
	someAddrs := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} // of either family
	return len(me.answers(q, me.records(someAddrs, recordTTL, false))) > 0
}

// message wraps records in a response for multicast.
func message(rrs []dns.RR) *dns.Msg {
	return &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Compress: true, Answer: rrs}
}

// instanceRecord is what one packet says about one instance of the service. It is unverified.
type instanceRecord struct {
	instance string // the label only
	host     string
	port     uint16
	ttl      uint32 // seconds; 0 = goodbye
	flush    bool
	txt      txtData
	hasTXT   bool
	addrs    []netip.Addr
}

// isComplete reports whether the claim has all that is needed to add a peer. Goodbyes and partial
// answers do not.
func (c instanceRecord) isComplete() bool { return c.ttl > 0 && c.port > 0 && c.txt.id != "" }

// claims returns what a response says about instances of a service. Malformed records are left out,
// and a packet with more than maxRecords yields nothing.
func claims(m *dns.Msg, service string) []*instanceRecord {
	if !m.Response || m.Opcode != dns.OpcodeQuery || m.Rcode != dns.RcodeSuccess || len(m.Answer)+len(m.Extra) > maxRecords {
		return nil
	}
	r := claimReader{service: service, by: map[string]*instanceRecord{}, addrs: map[string][]netip.Addr{}}
	for _, section := range [][]dns.RR{m.Answer, m.Extra} {
		for _, rr := range section {
			r.record(rr)
		}
	}
	for _, c := range r.all {
		c.addrs = r.addrs[c.host]
		if c.hasTXT && (len(c.txt.id) < instanceLn || c.txt.id[:instanceLn] != c.instance) {
			c.txt = txtData{} // an id that does not fit its instance
		}
	}
	return r.all
}

// claimReader collects the records of one packet by instance.
type claimReader struct {
	service string
	all     []*instanceRecord
	by      map[string]*instanceRecord
	addrs   map[string][]netip.Addr
}

// record adds one record to the claim that it belongs to. Of repeated SRV and TXT records the first
// counts.
func (r *claimReader) record(rr dns.RR) {
	h := rr.Header()
	switch rr := rr.(type) {
	case *dns.PTR:
		if dns.CanonicalName(h.Name) == r.service {
			if c := r.instance(rr.Ptr); c != nil {
				c.ttl = min(c.ttl, h.Ttl)
			}
		}
	case *dns.SRV:
		if c := r.instance(h.Name); c != nil && c.port == 0 {
			c.host, c.port = dns.CanonicalName(rr.Target), rr.Port
			c.ttl = min(c.ttl, h.Ttl)
			c.flush = h.Class&topBit != 0
		}
	case *dns.TXT:
		if c := r.instance(h.Name); c != nil && !c.hasTXT {
			c.hasTXT = true
			c.txt = readTXT(rr.Txt)
		}
	case *dns.A:
		r.addr(h, rr.A)
	case *dns.AAAA:
		r.addr(h, rr.AAAA)
	}
}

// instance returns the claim for a full instance name, or nil if the name cannot be a node's.
func (r *claimReader) instance(name string) *instanceRecord {
	label, ok := strings.CutSuffix(dns.CanonicalName(name), "."+r.service)
	if !ok || len(label) != instanceLn || strings.Trim(label, "0123456789abcdef") != "" {
		return nil
	}
	c := r.by[label]
	if c == nil {
		c = &instanceRecord{instance: label, ttl: ^uint32(0)}
		r.by[label] = c
		r.all = append(r.all, c)
	}
	return c
}

// addr adds an address record of a host. The claims find it by the host name at the end.
func (r *claimReader) addr(h *dns.RR_Header, ip []byte) {
	a, ok := netip.AddrFromSlice(ip)
	if name := dns.CanonicalName(h.Name); ok && h.Ttl > 0 {
		r.addrs[name] = append(r.addrs[name], a.Unmap())
	}
}

// txtData has the values of a TXT record that are used. The rest is dropped, because any machine on
// the LAN may have written it.
type txtData struct {
	id, tag, protocol string
}

// readTXT parses the strings of a TXT record. Unknown keys are ignored, and the first of repeated
// keys counts (RFC 6763 6.4). An invalid value, or a record that is too large, yields the zero
// value.
func readTXT(pairs []string) txtData {
	if len(pairs) > maxTXTKeys {
		return txtData{}
	}
	size := 0
	got := map[string]string{}
	for _, pair := range pairs {
		size += 1 + len(pair)
		key, value, _ := strings.Cut(pair, "=")
		key = strings.ToLower(key)
		if _, twice := got[key]; twice {
			continue
		}
		switch key {
		case "txtvers", "id", "cl", "pv":
			if !plain().MatchString(value) {
				return txtData{}
			}
			got[key] = value
		}
	}
	if size > maxTXT || got["txtvers"] != "1" || !nodeID().MatchString(got["id"]) {
		return txtData{}
	}
	return txtData{id: got["id"], tag: got["cl"], protocol: got["pv"]}
}
