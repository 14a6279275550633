package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "symbio/proto/symbio/v1"
)

// JoinProtocol is the TLS protocol (ALPN) by which a node without a certificate asks for its first.
const JoinProtocol = "symbio-join/1"

const (
	tokenStart  = "SYM1"
	secretBytes = 20
	maxToken    = 200 // characters, spaces around it included
)

var base32Plain = base32.StdEncoding.WithPadding(base32.NoPadding)

// Token lets one node join a cluster: the hash of the authority's certificate, by which the joiner
// knows the cluster, and a secret, by which the cluster knows the joiner. It prints without the secret;
// Text has it.
//
// The secret is the seed of a signing key. The authority keeps only the hash of the public half, so
// that who reads its files cannot join, and the proof that crosses the wire is a signature over one TLS
// connection and one certificate request, so that it is of no use anywhere else.
type Token struct {
	hash [sha256.Size]byte
	key  secret
	text func() string
}

// ParseToken reads SYM1-<base32 of 32 bytes>-<base32 of 20 bytes>. Errors hold nothing of the text.
func ParseToken(text string) (Token, error) {
	if len(text) > maxToken {
		return Token{}, errors.New("that is no join token: it is too long")
	}
	parts := strings.Split(strings.TrimSpace(text), "-")
	if len(parts) != 3 || parts[0] != tokenStart {
		return Token{}, errors.New("that is no join token: one begins with " + tokenStart + "- and has three parts; `symbio cluster token` prints one")
	}
	hash, err := decodeExactly(parts[1], sha256.Size)
	secret, err2 := decodeExactly(parts[2], secretBytes)
	if err != nil || err2 != nil {
		return Token{}, errors.New("the join token is damaged: copy the whole line again")
	}
	return makeToken([sha256.Size]byte(hash), secret), nil
}

func newToken(hash [sha256.Size]byte) Token {
	var secret [secretBytes]byte
	_, _ = rand.Read(secret[:]) // never fails: crypto/rand ends the process instead
	return makeToken(hash, secret[:])
}

func makeToken(hash [sha256.Size]byte, secret []byte) Token {
	seed := sha256.New()
	seed.Write([]byte("symbio join token v1\n"))
	seed.Write(hash[:])
	seed.Write(secret)
	text := strings.Join([]string{tokenStart, base32Plain.EncodeToString(hash[:]), base32Plain.EncodeToString(secret)}, "-")
	return Token{hash: hash, key: seal(ed25519.NewKeyFromSeed(seed.Sum(nil))), text: func() string { return text }}
}

// decodeExactly also refuses what only decodes to the same bytes, so that a token has one spelling.
func decodeExactly(s string, size int) ([]byte, error) {
	b, err := base32Plain.DecodeString(s)
	if err != nil || len(b) != size || base32Plain.EncodeToString(b) != s {
		return nil, errors.New("not base32 of the right length")
	}
	return b, nil
}

// Text is the token as it is handed over: whoever has it may join.
func (t Token) Text() string { return t.text() }

func (t Token) String() string { return "join token for authority " + hex.EncodeToString(t.hash[:8]) }

// Format writes the same as String for every verb, so that none shows the secret.
func (t Token) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, t.String()) }

// LogValue keeps the secret out of logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

func (t Token) public() ed25519.PublicKey { return t.key().Public().(ed25519.PublicKey) }

// ClientTLS is the configuration to ask a node for admission with. The handshake succeeds only with a
// node that the token's authority vouches for; nothing is sent to any other.
func (t Token) ClientTLS() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{JoinProtocol},
		SessionTicketsDisabled: true,
		InsecureSkipVerify:     true, // there are no roots yet: VerifyConnection finds the one by its hash
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != JoinProtocol {
				return ErrNoAuthority
			}
			_, _, err := t.verify(s.PeerCertificates)
			return err
		},
	}
}

// verify finds the token's authority among the certificates after the first, and checks the first.
func (t Token) verify(chain []*x509.Certificate) (*Authority, Peer, error) {
	for i, c := range chain {
		if i == 0 || sha256.Sum256(c.Raw) != t.hash {
			continue
		}
		a, err := trust(c)
		if err != nil || a.name == Local {
			return nil, Peer{}, ErrWrongCluster
		}
		p, err := a.verify(chain[0], time.Now())
		return a, p, err
	}
	return nil, Peer{}, ErrWrongCluster
}

// verify checks a node's certificate, with tolerance for a clock that is somewhat wrong.
func (a *Authority) verify(leaf *x509.Certificate, now time.Time) (Peer, error) {
	var err error
	for _, off := range []time.Duration{0, skew, -skew} {
		_, err = leaf.Verify(x509.VerifyOptions{
			Roots: a.roots(), CurrentTime: now.Add(off), DNSName: dnsName("", a.name),
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if invalid := (x509.CertificateInvalidError{}); !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
			break
		}
	}
	if err != nil {
		return Peer{}, err
	}
	p, err := peerOf(leaf)
	if err == nil && p.Authority != a.name {
		err = ErrNotNode
	}
	return p, err
}

// Request asks for a certificate for a node's key, over the connection of that state and no other.
func (t Token) Request(s tls.ConnectionState, k *Key, name string) (*pb.JoinRequest, error) {
	request, err := k.request()
	if err != nil {
		return nil, err
	}
	text, err := proofText(s, request)
	if err != nil {
		return nil, err
	}
	return &pb.JoinRequest{
		Request: request, TokenKey: t.public(), Proof: ed25519.Sign(t.key(), text), Clock: timestamppb.Now(), Name: name,
	}, nil
}

// proofText is what a joiner signs: the exporter of RFC 8446 section 7.5 is known to the two ends of one
// connection only.
func proofText(s tls.ConnectionState, request []byte) ([]byte, error) {
	if !s.HandshakeComplete || s.Version != tls.VersionTLS13 || s.NegotiatedProtocol != JoinProtocol {
		return nil, errors.New("a join needs a TLS connection that was made for it")
	}
	channel, err := s.ExportKeyingMaterial("EXPORTER-symbio-join", nil, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("bind to the connection: %w", err)
	}
	sum := sha256.Sum256(request)
	return append(append([]byte("symbio join v1\n"), channel...), sum[:]...), nil
}

// Accept checks what the authority answered to a Request for key k.
func (t Token) Accept(reply *pb.JoinReply, k *Key) (*Admission, error) {
	leaf, err := x509.ParseCertificate(reply.GetCertificate())
	if err != nil {
		return nil, fmt.Errorf("the answer holds no certificate: %w", err)
	}
	ca, err := x509.ParseCertificate(reply.GetAuthority())
	if err != nil {
		return nil, fmt.Errorf("the answer holds no authority: %w", err)
	}
	a, p, err := t.verify([]*x509.Certificate{leaf, ca})
	if err != nil {
		return nil, fmt.Errorf("the answer's certificate: %w", err)
	}
	if p.ID != k.id {
		return nil, fmt.Errorf("the answer's certificate: %w: it is for %s", ErrWrongNode, p.ID)
	}
	return &Admission{Peer: p, NotAfter: leaf.NotAfter, leaf: leaf, authority: a, removed: reply.GetRevocations()}, nil
}

// Explain turns an error of the handshake with ClientTLS into one with words for people.
func (t Token) Explain(err error) error {
	invalid := x509.CertificateInvalidError{}
	record := tls.RecordHeaderError{}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &record):
		return fmt.Errorf("%w: something else than a symbio node uses that port", ErrPlaintext)
	case errors.As(err, &invalid):
		return explainInvalid(invalid, time.Now())
	case strings.Contains(err.Error(), alertAccessDenied.Error()):
		return fmt.Errorf("%w: wait a minute", ErrNoRoom)
	case strings.Contains(err.Error(), alertNoProtocol.Error()):
		return fmt.Errorf("%w: give the address of the node where `symbio cluster init` ran", ErrNoAuthority)
	case errors.Is(err, ErrWrongCluster):
		return fmt.Errorf("%w; nothing was sent to it: check the address, or get a token where that cluster was made", ErrWrongCluster)
	}
	return err
}
