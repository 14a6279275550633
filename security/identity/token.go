package identity

import (
	"bytes"
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
	// tokenStart is the first part of a token's text and the version of its form.
	tokenStart = "SYM1"
	// secretBytes are 160 bits, too many to guess; 32 letters in base32.
	secretBytes = 20
	// maxToken is the most characters of a token's text, spaces around it included. A token has 90.
	maxToken = 200
)

// base32Plain is base32 (RFC 4648, section 6) without padding.
var base32Plain = base32.StdEncoding.WithPadding(base32.NoPadding)

// Token lets one node join a cluster: the hash of the authority's certificate, by which the joiner
// knows the cluster, and a secret, by which the cluster knows the joiner. It prints without the
// secret; Text has it. Make one with Cluster.NewToken or ParseToken; the zero value is of no use.
//
// The secret is the seed of a signing key. The authority keeps only the hash of the public half, so
// that a reader of its files cannot join. The proof that crosses the wire is a signature over one
// TLS connection and one certificate request, so that it cannot be replayed anywhere else.
type Token struct {
	// hash is SHA-256 of the authority's certificate in DER.
	hash [sha256.Size]byte
	// key is derived from hash and secret by makeToken.
	key secret
	// text is a function so that printing the struct does not show the secret.
	text func() string
}

// ParseToken reads SYM1-HASH-SECRET: the base32 of 32 and of 20 bytes. Spaces around it are
// ignored. Its errors contain nothing of the text.
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

// newToken returns a token with a random secret for the authority with that hash.
func newToken(hash [sha256.Size]byte) Token {
	var secret [secretBytes]byte
	_, _ = rand.Read(secret[:]) // never fails: crypto/rand ends the process instead
	return makeToken(hash, secret[:])
}

// makeToken derives the signing key: its seed is SHA-256 over a line for the purpose, the hash and
// the secret. So the same secret gives another key in another cluster.
func makeToken(hash [sha256.Size]byte, secret []byte) Token {
	seed := sha256.New()
	seed.Write([]byte("symbio cluster join token v1\n"))
	seed.Write(hash[:])
	seed.Write(secret)
	text := strings.Join([]string{tokenStart, base32Plain.EncodeToString(hash[:]), base32Plain.EncodeToString(secret)}, "-")
	return Token{hash: hash, key: seal(ed25519.NewKeyFromSeed(seed.Sum(nil))), text: func() string { return text }}
}

// decodeExactly decodes base32 of exactly size bytes. Other spellings of the same bytes are errors,
// so that a token has one text.
func decodeExactly(s string, size int) ([]byte, error) {
	b, err := base32Plain.DecodeString(s)
	if err != nil || len(b) != size || base32Plain.EncodeToString(b) != s {
		return nil, errors.New("not base32 of the right length")
	}
	return b, nil
}

// Text returns the token as it is handed over. Whoever has it may join.
func (t Token) Text() string { return t.text() }

func (t Token) String() string { return "join token for authority " + hex.EncodeToString(t.hash[:8]) }

// Format writes the same as String for every verb, so that none shows the secret.
func (t Token) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, t.String()) }

// LogValue keeps the secret out of logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// public returns the key by which the authority finds the token's ticket.
func (t Token) public() ed25519.PublicKey { return t.key().Public().(ed25519.PublicKey) }

// ClientTLS returns the configuration to ask a node for admission. The handshake succeeds only with
// a node that the token's authority has certified and that offers JoinProtocol; nothing is sent to
// any other. Explain says which of the two it was.
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

// verify finds the token's authority among the certificates after the first one, by its hash, and
// verifies the one in front of it, which must be for the same key as the first one. It returns ErrWrongCluster if the authority is not there, or is a
// local one.
func (t Token) verify(chain []*x509.Certificate) (*Authority, Peer, error) {
	for i, c := range chain {
		if i == 0 || sha256.Sum256(c.Raw) != t.hash || !bytes.Equal(chain[i-1].RawSubjectPublicKeyInfo, chain[0].RawSubjectPublicKeyInfo) {
			continue
		}
		a, err := trust(c)
		if err != nil || a.name == Local {
			return nil, Peer{}, ErrWrongCluster
		}
		p, err := a.verify(chain[i-1], time.Now())
		return a, p, err
	}
	return nil, Peer{}, ErrWrongCluster
}

// verify returns the node that a certificate is for, if a trusted authority has signed it and it is
// valid at now, or would be with a clock that is up to skew wrong. An x509.CertificateInvalidError
// says why it is not.
func (a *Authority) verify(leaf *x509.Certificate, now time.Time) (Peer, error) {
	return a.all().trusted().verify(leaf, now)
}

// verify is the same for all of a lineage.
func (l lineage) verify(leaf *x509.Certificate, now time.Time) (Peer, error) {
	pool, name := l.roots(), l[0].name
	var err error
	// Only an error about the time is tried again with another one.
	for _, off := range []time.Duration{0, skew, -skew} {
		_, err = leaf.Verify(x509.VerifyOptions{
			Roots: pool, CurrentTime: now.Add(off), DNSName: dnsName("", name),
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
	if err == nil && p.Authority != name {
		err = ErrNotNode
	}
	return p, err
}

// Request returns the request to certify the node's key k. It is valid over the connection with
// state s only, which must have been made with ClientTLS. name is for people and proves nothing.
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

// proofText returns what a joiner signs: a line for its purpose, 32 bytes of the connection's
// exporter (RFC 8446, section 7.5), which only its two ends know, and the hash of the request. It
// is an error unless the connection is TLS 1.3 with JoinProtocol.
func proofText(s tls.ConnectionState, request []byte) ([]byte, error) {
	if !s.HandshakeComplete || s.Version != tls.VersionTLS13 || s.NegotiatedProtocol != JoinProtocol {
		return nil, errors.New("a join needs a TLS connection that was made for it")
	}
	channel, err := s.ExportKeyingMaterial("EXPORTER-symbio-join", nil, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("bind to the connection: %w", err)
	}
	sum := sha256.Sum256(request)
	return append(append([]byte("symbio cluster join v1\n"), channel...), sum[:]...), nil
}

// Accept checks the reply to a Request for key k. The certificate must be signed by the token's
// authority, and be for k's node. Nothing is stored; see Admission.Save.
func (t Token) Accept(reply *pb.JoinReply, k *Key) (*Admission, error) {
	leaf, err := x509.ParseCertificate(reply.GetCertificate())
	if err != nil {
		return nil, fmt.Errorf("the answer holds no certificate: %w", err)
	}
	ca, err := x509.ParseCertificate(reply.GetAuthority())
	if err != nil {
		return nil, fmt.Errorf("the answer holds no authority: %w", err)
	}
	by := t
	if s := reply.GetSuccession(); sha256.Sum256(s.GetOld()) == t.hash {
		if _, next, err := checkSuccession(s); err == nil {
			by.hash = next.hash() // unless it is StageTrust
		}
	}
	a, p, err := by.verify([]*x509.Certificate{leaf, ca})
	if errors.Is(err, ErrWrongCluster) {
		a, p, err = t.verify([]*x509.Certificate{leaf, ca})
	}
	if err != nil {
		return nil, fmt.Errorf("the answer's certificate: %w", err)
	}
	if p.ID != k.id {
		return nil, fmt.Errorf("the answer's certificate: %w: it is for %s", ErrWrongNode, p.ID)
	}
	return &Admission{Peer: p, NotAfter: leaf.NotAfter, leaf: leaf, authority: a, removed: reply.GetRevocations(), succession: reply.GetSuccession()}, nil
}

// Explain turns an error of the handshake with ClientTLS into one of this package's with words for
// people. It returns other errors as they are, and nil for nil. crypto/tls does not export the type
// of an alert from the other side, so alerts are told apart by their text.
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
