package grpcpeer

import (
	"errors"
	"net"
	"strings"
	"testing"
)

// notes is a connection that notes what is written to it, and a writer above it that writes in parts.
type notes struct {
	net.Conn
	got  []string
	fail error
}

func (n *notes) Write(p []byte) (int, error) {
	if n.fail != nil {
		return 0, n.fail
	}
	n.got = append(n.got, string(p))
	return len(p), nil
}

type inParts struct {
	net.Conn
	below *batchConn
}

func (p inParts) Write(all []byte) (int, error) {
	for _, b := range all {
		if _, err := p.below.Write([]byte{b}); err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

func TestPartialWritesAreJoined(t *testing.T) {
	n := &notes{}
	b := newBatchConn(n)
	for _, s := range []string{"one", "", "two"} {
		if got, err := b.writeTLS(inParts{below: b}, []byte(s)); got != len(s) || err != nil {
			t.Errorf("%q: got %d, %v", s, got, err)
		}
	}
	b.Write([]byte("three"))
	if got := strings.Join(n.got, " "); got != "one two three" {
		t.Errorf("written was %q", got)
	}
	long := make([]byte, 5*chunk)
	n.got = nil
	if _, err := b.writeTLS(inParts{below: b}, long); err != nil || len(n.got) != 3 || len(strings.Join(n.got, "")) != len(long) {
		t.Errorf("what is long was written in %d parts, %v", len(n.got), err)
	}
	n.fail = errors.New("cut")
	if got, err := b.writeTLS(inParts{below: b}, []byte("four")); got != 0 || err != n.fail {
		t.Errorf("a broken connection: got %d, %v", got, err)
	}
}
