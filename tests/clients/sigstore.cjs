// Signs and verifies plugin files with the libraries of Sigstore, and with a certificate authority and a transparency log
// that exist in this process only.
//   sign FILE IDENTITY ISSUER    writes FILE.sigstore.json and trusted_root.json in the current directory
//   verify FILE PUBLIC_KEY       verifies FILE.sigstore.json with a public key in PEM
const { createHash, generateKeyPairSync, createPublicKey } = require("node:crypto");
const { readFileSync, writeFileSync } = require("node:fs");
const { basename } = require("node:path");
const { fulcioHandler, initializeCA, initializeCTLog, initializeTLog, rekorHandler } = require("@sigstore/mock");
const { bundleFromJSON, bundleToJSON } = require("@sigstore/bundle");
const { TrustedRoot, HashAlgorithm, PublicKeyDetails } = require("@sigstore/protobuf-specs");
const { DSSEBundleBuilder, FulcioSigner, RekorWitness } = require("@sigstore/sign");
const { toSignedEntity, toTrustMaterial, Verifier } = require("@sigstore/verify");
const nock = require("nock");

const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const sha256 = (bytes) => createHash("sha256").update(bytes).digest();

function serve(url, handler) {
  nock(url).post(handler.path).reply(async (_, body) => {
    const answer = await handler.fn(typeof body === "string" ? body : JSON.stringify(body));
    return [answer.statusCode, answer.response, { "Content-Type": answer.contentType ?? "text/plain" }];
  });
}

// What a log keeps of a proposed entry.
function stored({ apiVersion, kind, spec: { proposedContent: { envelope, verifiers } } }) {
  const { payload, signatures } = JSON.parse(envelope);
  const hash = (bytes) => ({ algorithm: "sha256", value: sha256(bytes).toString("hex") });
  const kept = signatures.map(({ sig }, at) => ({ signature: sig, verifier: verifiers[at] }));
  const hashes = { envelopeHash: hash(envelope), payloadHash: hash(Buffer.from(payload, "base64")) };
  return { apiVersion, kind, spec: { ...hashes, signatures: kept } };
}

function log(url, publicKey, start) {
  return {
    baseUrl: url,
    hashAlgorithm: HashAlgorithm.SHA2_256,
    logId: { keyId: sha256(publicKey) },
    publicKey: { rawBytes: publicKey, keyDetails: PublicKeyDetails.PKIX_ECDSA_P256_SHA_256, validFor: { start } },
    checkpointKeyId: undefined,
    operator: "",
  };
}

async function sign(file, identity, issuer) {
  const [fulcio, rekor] = ["https://fulcio.example.org", "https://rekor.example.org"];
  const start = new Date(Date.now() - 60_000);
  const [ca, ct, tlog] = [0, 1, 2].map(() => generateKeyPairSync("ec", { namedCurve: "prime256v1" }));
  const ctLog = await initializeCTLog(ct);
  const authority = await initializeCA(ca, ctLog);
  const transparency = await initializeTLog(rekor, tlog);
  serve(fulcio, fulcioHandler(authority, { strict: true }));
  const entries = { log: (proposed) => transparency.log(stored(proposed)) };
  serve(rekor, rekorHandler(entries, { strict: true }));

  const claims = { sub: identity, iss: issuer };
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const token = [part({ alg: "none" }), part(claims), "x"].join(".");
  const statement = {
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name: basename(file), digest: { sha256: sha256(readFileSync(file)).toString("hex") } }],
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {},
  };
  const builder = new DSSEBundleBuilder({
    signer: new FulcioSigner({ fulcioBaseURL: fulcio, identityProvider: { getToken: async () => token } }),
    witnesses: [new RekorWitness({ rekorBaseURL: rekor, entryType: "dsse" })],
  });
  const bundle = await builder.create({ data: Buffer.from(JSON.stringify(statement)), type: PAYLOAD_TYPE });
  const root = {
    mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
    tlogs: [log(rekor, transparency.publicKey, start)],
    ctlogs: [log("https://ct.example.org", ctLog.publicKey, start)],
    certificateAuthorities: [{
      subject: { commonName: "", organization: "" },
      uri: fulcio,
      certChain: { certificates: [{ rawBytes: authority.rootCertificate }] },
      validFor: { start },
      operator: "",
    }],
    timestampAuthorities: [],
  };
  writeFileSync(`${file}.sigstore.json`, JSON.stringify(bundleToJSON(bundle)));
  writeFileSync("trusted_root.json", JSON.stringify(TrustedRoot.toJSON(root)));
}

function verify(file, key) {
  const bundle = bundleFromJSON(JSON.parse(readFileSync(`${file}.sigstore.json`, "utf8")));
  const publicKey = { publicKey: createPublicKey(readFileSync(key)), validFor: () => true };
  const root = { tlogs: [], ctlogs: [], certificateAuthorities: [], timestampAuthorities: [] };
  const options = { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 };
  new Verifier(toTrustMaterial(root, () => publicKey), options).verify(toSignedEntity(bundle));
  const statement = JSON.parse(bundle.content.dsseEnvelope.payload);
  if (statement.subject[0].digest.sha256 !== sha256(readFileSync(file)).toString("hex")) throw new Error("another file");
}

const [verb, ...args] = process.argv.slice(2);
Promise.resolve({ sign, verify }[verb](...args)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
