package telemetry

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// otlp is how one signal is sent. The exporters of OpenTelemetry send OTLP over HTTP and read the variables
// OTEL_EXPORTER_OTLP_* themselves; for gRPC they get a client that puts their requests into calls.
type otlp struct {
	signal string // TRACES, METRICS or LOGS
	getenv func(string) string
}

// services are the services of gRPC that receive the signals.
var services = map[string]string{"TRACES": "trace.v1.Trace", "METRICS": "metrics.v1.Metrics", "LOGS": "logs.v1.Logs"}

// variable returns the variable OTEL_EXPORTER_OTLP_NAME, or the one of the signal alone if that is set.
func (o otlp) variable(name string) string {
	return cmp.Or(o.getenv("OTEL_EXPORTER_OTLP_"+o.signal+"_"+name), o.getenv("OTEL_EXPORTER_OTLP_"+name))
}

// options returns the options of an exporter, made with its functions WithHTTPClient and WithEndpoint; none for
// OTLP over HTTP. The error names the variable that cannot be used.
func options[T any](o otlp, withClient func(*http.Client) T, withEndpoint func(string) T) ([]T, error) {
	if e := o.getenv("OTEL_" + o.signal + "_EXPORTER"); e != "" && e != "otlp" {
		return nil, fmt.Errorf("OTEL_%s_EXPORTER is %q: set it to otlp or none", o.signal, e)
	}
	switch p := o.variable("PROTOCOL"); p {
	case "", "http/protobuf":
		return nil, nil
	case "grpc":
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: set it to grpc or http/protobuf", p)
	}
	client, err := o.grpcClient()
	if err != nil {
		return nil, err
	}
	list := []T{withClient(client)}
	// OTLP over HTTP has another port, and no endpoint without a scheme.
	if endpoint := o.variable("ENDPOINT"); !strings.Contains(endpoint, "://") {
		list = append(list, withEndpoint(cmp.Or(endpoint, "localhost:4317")))
	}
	return list, nil
}

// grpcClient returns the client for gRPC, with the certificates and the time limit that the variables name.
func (o otlp) grpcClient() (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := o.variable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", file)
		}
	}
	if file := o.variable("CLIENT_CERTIFICATE"); file != "" {
		pair, err := tls.LoadX509KeyPair(file, o.variable("CLIENT_KEY"))
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	limit := 10 * time.Second // the default of OTLP
	if ms, err := strconv.Atoi(o.variable("TIMEOUT")); err == nil {
		limit = time.Duration(ms) * time.Millisecond
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: c, Protocols: new(http.Protocols), IdleConnTimeout: 90 * time.Second}
	t.Protocols.SetHTTP2(true)
	t.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Timeout: limit, Transport: unaryCall{"/opentelemetry.proto.collector." + services[o.signal] + "Service/Export", t}}, nil
}

// unaryCall sends each request as a unary call of a method of gRPC: the body is the message. That is the
// same for OTLP over HTTP and over gRPC.
type unaryCall struct {
	method string
	http   http.RoundTripper
}

const (
	frameHead = 5       // bytes before a message of gRPC: is it compressed, and its length
	maxAnswer = 4 << 20 // bytes; as gRPC's default
)

// RoundTrip makes the call. A failed call becomes the status that makes the exporters of OTLP over HTTP try
// again, or not, as OTLP demands for gRPC.
func (u unaryCall) RoundTrip(r *http.Request) (*http.Response, error) {
	message, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	call := r.Clone(r.Context())
	if call.Header.Get("Content-Encoding") == "gzip" {
		frame[0] = 1
		call.Header.Set("Grpc-Encoding", "gzip")
		call.Header.Del("Content-Encoding")
	}
	call.Header.Set("Content-Type", "application/grpc")
	call.Header.Set("Te", "trailers")
	call.URL = &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: u.method}
	call.Body, call.ContentLength, call.GetBody = io.NopCloser(strings.NewReader(string(frame)+string(message))), int64(len(frame)+len(message)), nil
	answer, err := u.http.RoundTrip(call)
	if err != nil {
		return nil, err
	}
	frame, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	text := ""
	// An answer without a message has its status in the header.
	for _, from := range []http.Header{answer.Header, answer.Trailer} {
		if code := from.Get("Grpc-Status"); code != "" {
			answer.StatusCode, text = httpStatus(code), from.Get("Grpc-Message")
		}
	}
	if text == "" && len(frame) >= frameHead && frame[0] == 0 {
		text = string(frame[frameHead:])
	}
	answer.Status = http.StatusText(answer.StatusCode)
	answer.Header.Set("Content-Type", "application/x-protobuf")
	answer.Body = io.NopCloser(strings.NewReader(text))
	return answer, nil
}

// httpStatus returns the status for a code of gRPC. OTLP says which failures pass: canceled, deadline
// exceeded, aborted, out of range, unavailable and data loss.
func httpStatus(code string) int {
	switch code {
	case "0":
		return http.StatusOK
	case "1", "4", "10", "11", "14", "15":
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}
