"""Events in the order of their time stamps, the tables that they make, and Milvus' own places in its topics."""
