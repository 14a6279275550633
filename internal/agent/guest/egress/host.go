package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"symbio/internal/security/permission/endpoint"
)

// defaultPort is the port of an entry that names none.
const defaultPort = 443

// target is a host and a port: an entry of the list, or the target of a request.
type target struct {
	// name is canonical: lower case, ASCII, without a trailing dot; "" if the host is an address.
	name string
	// below is true for an entry *.NAME, which stands for all names below NAME and not for NAME.
	below bool
	// addr is valid if the host is an address.
	addr netip.Addr
	port uint16
}

func (t target) String() string {
	name := t.name
	if t.addr.IsValid() {
		name = t.addr.String()
	}
	if t.below {
		name = "*." + name
	}
	return net.JoinHostPort(name, strconv.Itoa(int(t.port)))
}

// addrPort is the address of a target that is one; it is invalid otherwise.
func (t target) addrPort() netip.AddrPort { return netip.AddrPortFrom(t.addr, t.port) }

// covers reports whether an entry of the list allows a target. Names are compared by labels, and an
// address is only allowed by the same address.
func (t target) covers(asked target) bool {
	switch {
	case t.port != asked.port || t.addr != asked.addr:
		return false
	case t.below:
		return strings.HasSuffix(asked.name, "."+t.name)
	}
	return t.name == asked.name
}

// parseEntry reads an entry of the list: NAME, *.NAME, either with :PORT, or ADDRESS:PORT.
func parseEntry(text string) (target, error) {
	host, port := text, strconv.Itoa(defaultPort)
	if strings.HasSuffix(text, "]") || strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[") {
		return target{}, fmt.Errorf("%q: write an address with its port, such as 127.0.0.1:11434 or [::1]:11434", text)
	}
	if strings.Contains(text, ":") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return target{}, fmt.Errorf("%q is not HOST or HOST:PORT", text)
		}
	}
	name, below := strings.CutPrefix(host, "*.")
	t, err := parseTarget(name, port)
	t.below = below
	switch {
	case err != nil:
		return target{}, fmt.Errorf("%q: %w", text, err)
	case t.addr.IsValid() && (below || host == text):
		return target{}, fmt.Errorf("%q: write an address with its port, such as 127.0.0.1:11434", text)
	}
	return t, nil
}

// parseTarget reads a host and a port. A host that some programs take for an address and others do
// not, such as 0x7f.1, is an error.
func parseTarget(host, port string) (target, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strings.HasPrefix(port, "0") {
		return target{}, fmt.Errorf("its port is no number from 1 to 65535")
	}
	t := target{port: uint16(n)}
	if t.addr, err = netip.ParseAddr(host); err == nil {
		if t.addr.Zone() != "" {
			return target{}, fmt.Errorf("its address names a network interface")
		}
		t.addr = t.addr.Unmap()
		return t, nil
	}
	name, ok := endpoint.ParseHost(host)
	if !ok || name == "" || endpoint.IsNumber(name) {
		return target{}, fmt.Errorf("its host is no valid name")
	}
	t.name = name
	return t, nil
}
