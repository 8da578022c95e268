"""The message queues' part of the configuration files that Milvus 2.1, 2.3 and 2.6 ship."""

from __future__ import annotations

V21 = """
etcd:
  endpoints: [localhost:2379]
  rootPath: by-dev
minio: {address: localhost, port: 9000, accessKeyID: minioadmin}
pulsar:
  address: localhost
  port: 6650
  webport: 80
  maxMessageSize: 5242880
  tenant: public
  namespace: default
rocksmq:
  path: /var/lib/milvus/rdb_data
  rocksmqPageSize: 2147483648
  retentionTimeInMinutes: 10080
  retentionSizeInMB: 8192
  compactionInterval: 86400
  lrucacheratio: 0.06
rootCoord: {address: localhost, port: 53100}
proxy: {port: 19530}
"""

V23 = """
etcd: {endpoints: "localhost:2379"}
metastore: {type: etcd}
tikv: {endpoints: "127.0.0.1:2389"}
localStorage: {path: /var/lib/milvus/data/}
mq:
  type: default
  enablePursuitMode: true
  pursuitLag: 10
  pursuitBufferSize: 8388608
  mqBufSize: 16
  dispatcher: {mergeCheckInterval: 1, targetBufSize: 16, maxTolerantLag: 3}
pulsar:
  address: localhost
  port: 6650
  webport: 80
  maxMessageSize: 5242880
  tenant: public
  namespace: default
  requestTimeout: 60
  enableClientMetrics: false
  authPlugin:
  authParams:
kafka:
  brokerList:
  saslUsername:
  saslPassword:
  saslMechanisms:
  securityProtocol:
  ssl:
    enabled: false
    tlsCert:
    tlsKey:
    tlsCaCert:
    tlsKeyPassword:
  readTimeout: 10
rocksmq:
  path: /var/lib/milvus/rdb_data
  lrucacheratio: 0.06
  rocksmqPageSize: 67108864
  retentionTimeInMinutes: 4320
  retentionSizeInMB: 8192
  compactionInterval: 86400
  compressionTypes: 0,0,7,7,7
natsmq:
  server: {port: 4222, storeDir: /var/lib/milvus/nats, monitor: {trace: false}}
"""

V26 = """
etcd: {endpoints: "localhost:2379", auth: {enabled: false}}
mq:
  type: default
  enablePursuitMode: true
  pursuitLag: 10
  pursuitBufferSize: 8388608
  pursuitBufferTime: 60
  mqBufSize: 16
  ignoreBadPosition: false
  dispatcher:
    mergeCheckInterval: 0.1
    targetBufSize: 16
    maxTolerantLag: 3
    maxDispatcherNumPerPchannel: 5
    retrySleep: 3
    retryTimeout: 60
woodpecker: {meta: {type: etcd}, client: {segmentAppend: {queueSize: 10000}}}
pulsar:
  address: localhost
  port: 6650
  webport: 80
  webaddress:
  maxMessageSize: 2097152
  tenant: public
  namespace: default
  requestTimeout: 60
  enableClientMetrics: false
  backlogAutoClearBytes: 100m
  producerAccessMode: exclusive
  authPlugin:
  authParams:
kafka:
  brokerList: localhost:9092
  saslUsername:
  saslPassword:
  saslMechanisms:
  securityProtocol:
  ssl: {enabled: false, tlsCert: , tlsKey: , tlsCaCert: , tlsKeyPassword: }
  readTimeout: 10
  queuedmaxkbytes: 100000
rocksmq:
  path: /var/lib/milvus/rdb_data
  lrucacheratio: 0.06
  rocksmqPageSize: 67108864
  retentionTimeInMinutes: 4320
  retentionSizeInMB: 8192
  compactionInterval: 86400
  timtickerInterval: 600
  compressionTypes: 0,0,7,7,7
streaming: {walBalancer: {triggerInterval: 1m}}
trace: {exporter: noop}
"""

FULL = """
mq: {type: kafka}
pulsar:
  address: pulsar
  port: 6651
  webport: 8080
  tenant: acme
  namespace: prod
  maxMessageSize: 1000000
  authPlugin: token
  authParams: token:s3cret
kafka:
  brokerList: one:9092,two
  port: 9093
  saslUsername: me
  saslPassword: s3cret
  saslMechanisms: SCRAM-SHA-256
  securityProtocol: SASL_SSL
  ssl: {enabled: true, tlsCert: c, tlsKey: k, tlsCaCert: a, tlsKeyPassword: s3cret}
  consumer: {fetch.min.bytes: 1}
  producer: {linger.ms: 20, compression.type: zstd}
rocksmq:
  path: /mq
  retentionTimeInMinutes: 60
  retentionSizeInMB: 100
"""

STOCK = {"2.1": V21, "2.3": V23, "2.6": V26}
