package grpcpeer_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// knock makes a handshake with the certificate of another authority, and returns how it ended.
func knock(t *testing.T, s *station, as *identity.Identity) error {
	t.Helper()
	raw, err := s.Listener.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	cfg := as.ClientTLS("")
	cfg.InsecureSkipVerify, cfg.VerifyConnection = true, nil
	c := tls.Client(raw, cfg)
	if err := c.HandshakeContext(t.Context()); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

func TestFailedHandshakesLimitTheirAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, elsewhere := newLAN(t), newLAN(t)
		s := l.add("a")
		a := s.live("a")
		eve, friend := elsewhere.identity("eve"), l.identity("friend")
		// Who proves to be a node costs nothing of it, however often.
		for range 3 {
			for range 20 {
				raw, err := s.Listener.Dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c := tls.Client(raw, friend.ClientTLS(""))
				if err := c.HandshakeContext(t.Context()); err != nil {
					t.Fatalf("a friend was refused: %v", err)
				}
				raw.Close()
				synctest.Wait()
			}
		}
		if n := a.network.Refusals(a.id)[grpcpeer.RefusedHandshakeRate]; n != 0 {
			t.Fatalf("%d handshakes of a friend were refused for their number", n)
		}
		rejected, noRoom := 0, 0
		for range 30 {
			switch err := l.identity("b").Explain(knock(t, s, eve)); {
			case errors.Is(err, identity.ErrRejected):
				rejected++
			case errors.Is(err, identity.ErrNoRoom):
				noRoom++
			default:
				t.Errorf("eve hears %v", err)
			}
		}
		if rejected != 20 || noRoom != 10 {
			t.Errorf("%d were looked at and %d turned away at once, want 20 and 10", rejected, noRoom)
		}
		refused := a.network.Refusals(a.id)
		if refused[grpcpeer.RefusedHandshakeRate] != 10 || refused[grpcpeer.RefusedProof] != 20 {
			t.Errorf("counted %v, want 10 for the rate and 20 for the proof", refused)
		}
		if st, found := a.status("", grpcpeer.StateRefused); !found || st.Why == "" {
			t.Errorf("nodes are %+v, want the address that was refused", a.network.Nodes())
		}
		time.Sleep(time.Second)
		for i := range 6 {
			if err := l.identity("b").Explain(knock(t, s, eve)); errors.Is(err, identity.ErrNoRoom) != (i == 5) {
				t.Errorf("a second later, try %d: %v; want five looked at", i+1, err)
			}
		}
	})
}

func TestRefusedConnectionIsNotifiedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		s := l.add("a", func(c *grpcpeer.Config) { c.Limits.Connections, c.Limits.PerNode = 3, 2 })
		a := s.live("a")
		for i := range 3 {
			if _, err := client(t, l.identity("rogue"), s.Listener.Dial).Describe(t.Context(),
				&pb.DescribeRequest{}); (err == nil) != (i < 2) {
				t.Errorf("connection %d of the rogue: %v; want two let in", i+1, err)
			}
		}
		rogue := community.NodeID(l.identity("rogue").ID())
		if n := a.network.Refusals(rogue)[grpcpeer.RefusedPerNode]; n == 0 {
			t.Errorf("nothing was counted for the node that had too many connections: %v", a.network.Refusals(a.id))
		}
		synctest.Wait()
		silent, err := s.Listener.Dial(t.Context()) // the third, beside two of the rogue's
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c, err := s.Listener.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		friend := l.identity("friend")
		err = tls.Client(c, friend.ClientTLS("")).HandshakeContext(t.Context())
		if got := friend.Explain(err); !errors.Is(got, identity.ErrNoRoom) {
			t.Errorf("the fourth connection: got %v, want %v", got, identity.ErrNoRoom)
		}
		if n := a.network.Refusals(a.id)[grpcpeer.RefusedConnections]; n == 0 {
			t.Errorf("counted %v, want the connections over the limit", a.network.Refusals(a.id))
		}
		silent.Close()
		c.Close()
	})
}

// A message so large that gRPC does not even read it is counted for who sent it, and told of once.
func TestMessageThatIsNotReadIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var heard events
		s := l.add("a", reporting(&heard))
		a := s.live("a")
		a.offers("echo", echo)
		rogue := client(t, l.identity("rogue"), s.Listener.Dial)
		id := community.NodeID(l.identity("rogue").ID())
		for range 3 {
			_, err := rogue.Invoke(t.Context(), &pb.InvokeRequest{Capability: "echo", Payload: make([]byte, 2<<20)})
			if status.Code(err) != codes.ResourceExhausted {
				t.Fatalf("got %v, want it refused as too large", err)
			}
		}
		stream, err := rogue.Link(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = stream.Send(&pb.Frame{Calls: []*pb.Call{{Id: 1, Request: &pb.InvokeRequest{Payload: make([]byte, 2<<20)}}}})
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil {
			t.Error("a frame of 2 MiB was taken")
		}
		synctest.Wait()
		if got := a.network.Refusals(id)[grpcpeer.RefusedSize]; got != 4 {
			t.Errorf("counted %d messages of the rogue, want 4", got)
		}
		if got := a.network.Refusals(a.id)[grpcpeer.RefusedSize]; got != 4 {
			t.Errorf("counted %d in all, want 4", got)
		}
		if heard.count(grpcpeer.Refused) != 1 || heard.last().Node != id || !strings.Contains(heard.last().Why, "bytes") {
			t.Errorf("heard %+v, want once of the message", heard.all)
		}
		// What a handler refuses is counted by the community, and not twice.
		if _, err := rogue.Invoke(t.Context(), &pb.InvokeRequest{Capability: "echo", Payload: make([]byte, 1<<20+1)}); err == nil {
			t.Error("a payload over the limit was taken")
		}
		if got := a.network.Refusals(id)[grpcpeer.RefusedSize]; got != 4 {
			t.Errorf("counted %d messages, want 4: the last came to the handler", got)
		}
	})
}
