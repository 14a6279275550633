package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"symbio/discovery"
)

// entry is one configured name, parsed.
type entry struct {
	text string
	host string
	port uint16 // 0: the records have ports, host is an SRV name

	resolver Resolver
}

// parse reads an entry. A leading "_" makes it a service name for SRV records, which bring their
// ports along; otherwise it is "name:port". The errors say which form is expected.
func parse(text string) (entry, error) {
	if strings.HasPrefix(text, "_") {
		return service(text)
	}
	host, port, err := discovery.SplitPort(text, "_symbio._tcp.example for SRV records, or name:port for addresses")
	if err != nil {
		return entry{}, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return entry{}, errors.New("this is an address, not a name: write it under discovery.peers")
	}
	if !discovery.IsHostName(host) {
		return entry{}, fmt.Errorf("%q is not a host name", host)
	}
	return entry{text: text, host: host, port: port}, nil
}

// service parses an SRV name, such as _symbio._tcp.example. Only _tcp makes sense: nodes listen on
// TCP.
func service(text string) (entry, error) {
	labels := strings.Split(strings.TrimSuffix(text, "."), ".")
	switch {
	case strings.Contains(text, ":"):
		return entry{}, errors.New("an SRV name has no port: its records do")
	case !discovery.IsHostName(text):
		return entry{}, errors.New("this is not a name in DNS")
	case len(labels) < 3 || labels[0] == "_" || !strings.EqualFold(labels[1], "_tcp"):
		return entry{}, errors.New("want _service._tcp.example, as in _symbio._tcp.example: nodes speak TCP")
	}
	return entry{text: text, host: text}, nil
}
