package endpoint_test

import (
	"net/netip"
	"testing"

	"symbio/internal/security/permission/endpoint"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		url, host          string
		port               uint16
		invalid, ambiguous bool
	}{
		{"https://Example.com./page", "example.com", 443, false, false},
		{"http://example.com:8080", "example.com", 8080, false, false},
		{"http://bücher.example", "xn--bcher-kva.example", 80, false, false},
		{"http://[::1]:3000/", "::1", 3000, false, false},
		{"http://0x7f.1/", "0x7f.1", 80, true, false}, // 127.0.0.1 for the C library
		{"http://127.1/", "127.1", 80, true, false},
		{"http://2130706433./", "2130706433", 80, true, false},
		{"http://0177.0.0.01/", "0177.0.0.01", 80, true, false},
		{"http://1.example/", "1.example", 80, false, false},
		{"http://example.com\\@other.example/", "", 0, true, false},
		{"https://user@example.com/", "example.com", 443, false, true},
		{"ftp://example.com/", "example.com", 0, true, false},
		{"https:///page", "", 0, true, false},
		{"https://example.com:0/", "example.com", 0, true, false},
	} {
		e := endpoint.Parse(c.url)
		if e.Host != c.host || e.Port != c.port || (e.Invalid != "") != c.invalid || (e.Ambiguous != "") != c.ambiguous {
			t.Errorf("Parse(%q) = %+v, want %+v", c.url, e, c)
		}
	}
}

func TestAllowList(t *testing.T) {
	local := netip.MustParseAddrPort("127.0.0.1:3000")
	list := endpoint.NewAllowList(map[netip.AddrPort]bool{local: true})
	for _, c := range []struct {
		list *endpoint.AllowList
		addr string
		want bool
	}{
		{nil, "93.184.216.34:443", true},
		{nil, "93.184.216.34:22", false},
		{nil, "127.0.0.1:3000", false},
		{nil, "[64:ff9b::7f00:1]:443", false}, // 127.0.0.1 inside of it
		{list, "127.0.0.1:3000", true},
		{list, "[::ffff:127.0.0.1]:3000", true},
		{list, "127.0.0.1:3001", false},
		{list, "93.184.216.34:80", true},
	} {
		if got := c.list.Allows(netip.MustParseAddrPort(c.addr)); got != c.want {
			t.Errorf("%v allows %s: %t, want %t", c.list, c.addr, got, c.want)
		}
	}
}
